// A page that is opened as a file may start no worker, and search is one: a frame does its work. Served pages use a worker.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      // What the script in there posts comes out here.
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      const script = inside.document.createElement("script");
      script.src = new URL(url, document.baseURI);
      this.frame = frame;
      this.ready = new Promise((resolve, reject) => {
        script.onload = () => resolve(inside);
        script.onerror = reject;
      });
      inside.document.body.append(script);
    }
    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
