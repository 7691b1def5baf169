// Lets the search run from a folder: browsers start no Worker for `file:` pages, so this one runs
// the worker's script in a hidden frame of the page. It does nothing on a page that a server sends.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super()
      this.frame = document.body.appendChild(document.createElement("iframe"))
      this.frame.hidden = true
      const inside = this.frame.contentWindow
      inside.postMessage = data => setTimeout(() => {
        const event = new MessageEvent("message", { data })
        this.dispatchEvent(event)
        if (this.onmessage) this.onmessage(event)
      })
      const script = inside.document.createElement("script")
      this.loaded = new Promise(done => { script.onload = done })
      script.src = new URL(address, document.baseURI).href
      inside.document.body.append(script)
    }
    postMessage(data) {
      this.loaded.then(() => {
        const inside = this.frame.contentWindow
        if (inside) inside.dispatchEvent(new inside.MessageEvent("message", { data }))
      })
    }
    terminate() { this.frame.remove() }
  }
}
