// Written by `ralph setup opencode`; `ralph setup opencode --uninstall` takes it away.
// Tells opencode's sessions what Ralph remembers of the project, and keeps what they learn.
// Nothing here may disturb a session: whatever fails is left out.
import { spawn, spawnSync } from "node:child_process"

const PROGRAM = __PROGRAM__
const MILLISECONDS = 10_000

export const RalphMemory = async ({ directory }) => {
  const known = new Set() // sessions that were told what is remembered
  const begun = new Set() // sessions that began while this program ran
  const compacted = new Set()
  const inside = new Set() // sessions of subagents
  const said = new Map() // what a session said since it was last idle
  const latest = new Map() // the last hook of each session, which the next one waits for
  const unsent = new Set() // hooks that have not got all of their input yet

  const words = (event) => [...PROGRAM.slice(1), "hook", event, "--agent", "opencode"]
  const input = (session, more) => JSON.stringify({ session_id: session, cwd: directory, ...more })

  const run = (job) =>
    new Promise((done) => {
      let out = ""
      const end = () => {
        unsent.delete(job)
        done(out)
      }
      try {
        const hook = spawn(PROGRAM[0], words(job.event), {
          cwd: directory,
          stdio: ["pipe", job.isAsked ? "pipe" : "ignore", "ignore"],
          timeout: MILLISECONDS,
          detached: true, // It keeps what was learned, also when this program is interrupted.
        })
        job.hook = hook
        hook.stdout?.setEncoding("utf8")
        hook.stdout?.on("data", (piece) => (out += piece))
        hook.on("error", end)
        hook.on("close", end)
        hook.stdin.on("error", () => {})
        hook.stdin.end(job.input, () => unsent.delete(job))
      } catch {
        end()
      }
    })

  // One after the other in a session: what it is told depends on what was kept before.
  const inTurn = (job) => {
    unsent.add(job)
    const turn = (latest.get(job.session) ?? Promise.resolve()).then(() => run(job))
    latest.set(job.session, turn)
    return turn
  }

  const ask = async (event, session, more) => {
    try {
      const out = await inTurn({ event, session, input: input(session, more), isAsked: true })
      return JSON.parse(out).hookSpecificOutput?.additionalContext ?? ""
    } catch {
      return ""
    }
  }

  const tell = (event, session, more) => inTurn({ event, session, input: input(session, more) })

  // At the end nothing can be waited for but like this.
  const runNow = (event, input) => {
    try {
      spawnSync(PROGRAM[0], words(event), {
        cwd: directory,
        input,
        stdio: ["pipe", "ignore", "ignore"],
        timeout: MILLISECONDS,
      })
    } catch {}
  }

  process.once("exit", () => {
    for (const job of unsent) {
      job.hook?.kill("SIGKILL") // Without all of its input it has done nothing yet.
      if (!job.isAsked) runNow(job.event, job.input)
    }
    for (const session of known) runNow("session-end", input(session, { reason: "exit" }))
  })

  return {
    "chat.message": async ({ sessionID }, { message, parts }) => {
      if (inside.has(sessionID)) return
      const typed = parts.filter((part) => part.type === "text" && !part.synthetic)
      const last = typed.at(-1)
      if (!last) return
      const told = []
      if (!known.has(sessionID)) {
        known.add(sessionID)
        // One that began before goes on, and is told only what is new to it.
        const source = compacted.delete(sessionID) ? "compact" : begun.has(sessionID) ? "startup" : "resume"
        told.push(await ask("session-start", sessionID, { source }))
      }
      const prompt = typed.map((part) => part.text).join("\n")
      told.push(await ask("user-prompt-submit", sessionID, { prompt }))
      const text = told.filter(Boolean).join("\n\n")
      if (!text) return
      // An id that begins like another keeps its place behind it.
      parts.push({ id: `${last.id}0`, sessionID, messageID: message.id, type: "text", synthetic: true, text })
    },
    "experimental.text.complete": async ({ sessionID }, { text }) => {
      said.set(sessionID, [...(said.get(sessionID) ?? []), text])
    },
    event: async ({ event }) => {
      const session = event.properties?.sessionID ?? event.properties?.info?.id
      if (event.type === "session.created") begun.add(session)
      if (event.type === "session.created" && event.properties.info?.parentID) inside.add(session)
      if (event.type === "session.compacted") {
        known.delete(session)
        compacted.add(session)
        tell("post-compact", session, {})
      }
      if (event.type === "session.idle" && said.has(session)) {
        const text = said.get(session).join("\n\n")
        said.delete(session)
        tell(inside.has(session) ? "subagent-stop" : "stop", session, { last_assistant_message: text })
      }
      if (event.type === "session.deleted" && known.delete(session)) tell("session-end", session, { reason: "deleted" })
    },
  }
}
