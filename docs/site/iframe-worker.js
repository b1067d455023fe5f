// Browsers refuse to start a worker from a page on disk, and search runs in one. There, a hidden frame takes its place.
if (location.protocol === "file:") {
  // As a worker's: later, and with a copy of the data.
  const tell = (whom, data) => {
    const copy = structuredClone(data);
    setTimeout(() => whom()?.onmessage?.(new MessageEvent("message", { data: copy })));
  };
  window.Worker = class {
    onmessage = null;
    constructor(url) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => tell(() => this, data);
      this.ready = new Promise((resolve) => {
        const script = inside.document.createElement("script");
        script.src = new URL(url, location);
        script.onload = resolve;
        inside.document.body.append(script);
      });
    }
    postMessage(data) {
      this.ready.then(() => tell(() => this.frame.contentWindow, data));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
