// Keeps the first page up to date: the server sends texts by key, and each element with that key gets its text.
"use strict";
(() => {
  const say = (text) => {
    const state = document.querySelector("[data-live-state]");
    if (state && state.textContent !== text) state.textContent = text;
  };
  const show = (values) => {
    for (const element of document.querySelectorAll("[data-live]")) {
      const text = values[element.dataset.live];
      if (typeof text === "string" && element.textContent !== text) element.textContent = text;
    }
    say("The numbers are updated every 2 seconds.");
  };
  const listen = () => {
    const source = new EventSource("/dashboard/events");
    source.onmessage = (event) => show(JSON.parse(event.data));
    source.onerror = () => {
      say("The numbers are not updated at the moment.");
      // A stream that ends is opened again by the browser; one that was refused is not.
      if (source.readyState === EventSource.CLOSED) setTimeout(listen, 10000);
    };
  };
  listen();
})();
