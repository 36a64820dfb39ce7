// Keep the page up to date: fetch its live part again and again, and put it in place.
"use strict";
(() => {
  const part = document.querySelector("[data-live]");
  const state = document.querySelector("[data-live-state]");
  if (!part) return;

  const LEAST = 2000; // milliseconds between two requests; a slow server gets fewer
  const address = new URL(location.href);
  address.searchParams.set("live", "1");
  let since = new Date();

  const say = (text) => {
    if (state.textContent !== text) state.textContent = text; // else a screen reader would repeat it
  };

  const isBeingRead = () => {
    const selection = document.getSelection();
    return !selection.isCollapsed && part.contains(selection.anchorNode);
  };

  const identity = (element) =>
    element.getAttribute("href") ?? element.getAttribute("value") ?? element.getAttribute("formaction") ?? element.form?.action;

  const replace = (html) => {
    const focused = part.contains(document.activeElement) && identity(document.activeElement);
    const selected = new Set([...part.querySelectorAll("input:checked")].map(identity));
    part.innerHTML = html;
    for (const box of part.querySelectorAll("input[type=checkbox]")) box.checked = selected.has(identity(box));
    if (focused) {
      [...part.querySelectorAll("a, input, button")].find((each) => identity(each) === focused)?.focus({ preventScroll: true });
    }
    document.dispatchEvent(new Event("semaphore-live"));
  };

  const ask = async () => {
    const answer = await fetch(address, { signal: AbortSignal.timeout(15000), cache: "no-store" });
    if (answer.redirected) throw new Error("you were logged out");
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    return answer.text();
  };

  const refresh = async () => {
    const begun = performance.now();
    try {
      if (!document.hidden && !isBeingRead()) {
        const html = await ask();
        if (!isBeingRead()) replace(html);
        since = new Date();
        say("");
      }
    } catch (error) {
      say(`Not refreshed since ${since.toLocaleTimeString()}: ${error.message}.`);
    }
    setTimeout(refresh, Math.max(LEAST, 2 * (performance.now() - begun)));
  };

  refresh();
})();
