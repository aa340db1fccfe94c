// A worker in a hidden frame, for pages that are opened as files: there, browsers refuse to start real ones.
// The search of the documentation is its only user; with a server in front, the browser's own Worker stays.
if (location.protocol === "file:") {
  // As between real workers: a copy, and never before the sender has gone on.
  const later = (data, take) => {
    const copy = structuredClone(data);
    setTimeout(() => take(copy));
  };

  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.documentElement.append(this.frame);
      const inner = this.frame.contentWindow;
      inner.postMessage = (data) =>
        later(data, (copy) => {
          const event = new MessageEvent("message", { data: copy });
          this.dispatchEvent(event);
          this.onmessage?.(event);
        });
      this.loaded = new Promise((done) => {
        const script = inner.document.createElement("script");
        Object.assign(script, { src: new URL(url, location.href).href, onload: done });
        inner.document.documentElement.append(script);
      });
    }

    postMessage(data) {
      const inner = this.frame.contentWindow;
      later(data, (copy) =>
        this.loaded.then(() => inner.dispatchEvent(new inner.MessageEvent("message", { data: copy }))),
      );
    }

    terminate() {
      this.frame.remove();
    }
  };
}
