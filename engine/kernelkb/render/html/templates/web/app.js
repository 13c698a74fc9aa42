"use strict";
(() => {
  const host = window.parent;
  const send = (message) => host.postMessage({ jsonrpc: "2.0", ...message }, "*");
  const view = document.getElementById("view");
  const tellSize = () => send({
    method: "ui/notifications/size-changed",
    params: { width: document.documentElement.scrollWidth, height: view.scrollHeight + 32 },
  });
  window.addEventListener("message", (event) => {
    const said = event.data;
    if (event.source !== host || !said || said.jsonrpc !== "2.0") return;
    if (said.id === 1 && said.result) {
      send({ method: "ui/notifications/initialized", params: {} });
    } else if (said.method === "ui/notifications/tool-result") {
      const html = said.params && said.params._meta && said.params._meta["kernelkb/view"];
      if (typeof html === "string") view.innerHTML = html;
      tellSize();
    } else if (said.id !== undefined && said.method) {
      send({ id: said.id, result: {} });
    }
  });
  send({
    id: 1,
    method: "ui/initialize",
    params: {
      protocolVersion: "2026-01-26",
      appInfo: { name: "kernelkb", version: "1" },
      appCapabilities: {},
    },
  });
})();
