// Written by `ralph setup opencode`; remove it with `ralph setup opencode --uninstall`.
// Adds the memories of the project to opencode sessions and stores what they learn.
// Errors are ignored, so that a session is never disturbed.
import { spawn, spawnSync } from "node:child_process"

const PROGRAM = __PROGRAM__
const MILLISECONDS = 10_000

export const RalphMemory = async ({ directory }) => {
  const known = new Set() // sessions that have received the memories
  const started = new Set() // sessions that started while this process ran
  const compacted = new Set()
  const subagents = new Set() // sessions of subagents
  const messages = new Map() // messages of a session since it was last idle
  const lastHook = new Map() // last hook of each session, which the next one waits for
  const unsent = new Set() // hooks that have not received all of their input yet

  const hookArguments = (event) => [...PROGRAM.slice(1), "hook", event, "--agent", "opencode"]
  const input = (session, more) => JSON.stringify({ session_id: session, cwd: directory, ...more })

  const run = (job) =>
    new Promise((done) => {
      let out = ""
      const end = () => {
        unsent.delete(job)
        done(out)
      }
      try {
        const hook = spawn(PROGRAM[0], hookArguments(job.event), {
          cwd: directory,
          stdio: ["pipe", job.isAsked ? "pipe" : "ignore", "ignore"],
          timeout: MILLISECONDS,
          detached: true, // It stores what was learned even if this process is interrupted.
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

  // Hooks of a session run one at a time: the context depends on what was stored before.
  const enqueue = (job) => {
    unsent.add(job)
    const turn = (lastHook.get(job.session) ?? Promise.resolve()).then(() => run(job))
    lastHook.set(job.session, turn)
    return turn
  }

  const ask = async (event, session, more) => {
    try {
      const out = await enqueue({ event, session, input: input(session, more), isAsked: true })
      return JSON.parse(out).hookSpecificOutput?.additionalContext ?? ""
    } catch {
      return ""
    }
  }

  const notify = (event, session, more) => enqueue({ event, session, input: input(session, more) })

  // On exit, only synchronous calls complete.
  const runNow = (event, input) => {
    try {
      spawnSync(PROGRAM[0], hookArguments(event), {
        cwd: directory,
        input,
        stdio: ["pipe", "ignore", "ignore"],
        timeout: MILLISECONDS,
      })
    } catch {}
  }

  process.once("exit", () => {
    for (const job of unsent) {
      job.hook?.kill("SIGKILL") // Without all of its input, it has not done anything yet.
      if (!job.isAsked) runNow(job.event, job.input)
    }
    for (const session of known) runNow("session-end", input(session, { reason: "exit" }))
  })

  return {
    "chat.message": async ({ sessionID }, { message, parts }) => {
      if (subagents.has(sessionID)) return
      const typed = parts.filter((part) => part.type === "text" && !part.synthetic)
      const last = typed.at(-1)
      if (!last) return
      const contexts = []
      if (!known.has(sessionID)) {
        known.add(sessionID)
        // A session that started earlier is resumed and gets only what is new to it.
        const source = compacted.delete(sessionID) ? "compact" : started.has(sessionID) ? "startup" : "resume"
        contexts.push(await ask("session-start", sessionID, { source }))
      }
      const prompt = typed.map((part) => part.text).join("\n")
      contexts.push(await ask("user-prompt-submit", sessionID, { prompt }))
      const text = contexts.filter(Boolean).join("\n\n")
      if (!text) return
      // An id with this prefix is sorted directly after the other one.
      parts.push({ id: `${last.id}0`, sessionID, messageID: message.id, type: "text", synthetic: true, text })
    },
    "experimental.text.complete": async ({ sessionID }, { text }) => {
      messages.set(sessionID, [...(messages.get(sessionID) ?? []), text])
    },
    event: async ({ event }) => {
      const session = event.properties?.sessionID ?? event.properties?.info?.id
      if (event.type === "session.created") started.add(session)
      if (event.type === "session.created" && event.properties.info?.parentID) subagents.add(session)
      if (event.type === "session.compacted") {
        known.delete(session)
        compacted.add(session)
        notify("post-compact", session, {})
      }
      if (event.type === "session.idle" && messages.has(session)) {
        const text = messages.get(session).join("\n\n")
        messages.delete(session)
        notify(subagents.has(session) ? "subagent-stop" : "stop", session, { last_assistant_message: text })
      }
      if (event.type === "session.deleted" && known.delete(session)) notify("session-end", session, { reason: "deleted" })
    },
  }
}
