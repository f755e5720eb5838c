// Browsers start no workers on pages that are opened from a file. Run the search, which asks for one, in a frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inside = this.frame.contentWindow
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      const script = inside.document.createElement("script")
      this.loaded = new Promise(resolve => script.addEventListener("load", resolve))
      script.src = url
      inside.document.body.append(script)
    }

    postMessage(data) {
      this.loaded.then(() => {
        const inside = this.frame.contentWindow
        inside.dispatchEvent(new inside.MessageEvent("message", { data }))
      })
    }

    terminate() {
      this.frame.remove()
    }
  }
}
