// Draw the permits in use and the waiting tasks of the last hour, as this tab has seen them.
"use strict";
(() => {
  const figure = document.querySelector("[data-hour]");
  if (!figure) return;

  const HOUR = 3600, MINUTE = 60; // seconds
  const GAP = 30; // without a point for longer, as in a hidden tab, the line is interrupted
  const WIDE = 720, HIGH = 80; // of the drawing
  const name = `semaphore-hour:${location.pathname}`;

  const remembered = () => {
    try {
      const found = JSON.parse(sessionStorage.getItem(name));
      return Array.isArray(found) ? found : [];
    } catch {
      return []; // storage is turned off
    }
  };

  const remember = (points) => {
    try {
      sessionStorage.setItem(name, JSON.stringify(points));
    } catch {
      // It is full or turned off: the line lasts as long as this page.
    }
  };

  let points = remembered(); // of [time, in use, waiting]

  const path = (of, span, most) => {
    const first = points.at(-1)[0] - span;
    let drawn = "", last = -Infinity;
    for (const point of points) {
      const x = ((point[0] - first) / span) * WIDE, y = HIGH - (point[of] / most) * (HIGH - 2) - 1;
      drawn += point[0] - last > GAP ? `M${x.toFixed(1)} ${y.toFixed(1)}` : `H${x.toFixed(1)}V${y.toFixed(1)}`;
      last = point[0];
    }
    return drawn;
  };

  const draw = () => {
    const state = document.querySelector("[data-used]");
    const now = Math.round(Date.now() / 1000);
    if (state) points.push([now, Number(state.dataset.used), Number(state.dataset.waiting)]);
    points = points.filter((point) => point[0] > now - HOUR && point[0] <= now);
    remember(points);
    if (points.length < 2) return;
    const [used, waiting] = [1, 2].map((of) => Math.max(...points.map((point) => point[of])));
    const most = Math.max(1, used, waiting);
    const span = Math.max(MINUTE, points.at(-1)[0] - points[0][0]); // a new tab draws what it has
    figure.querySelector("[data-hour-used]").setAttribute("d", path(1, span, most));
    figure.querySelector("[data-hour-waiting]").setAttribute("d", path(2, span, most));
    figure.querySelector("[data-hour-most-used]").textContent = used;
    figure.querySelector("[data-hour-most-waiting]").textContent = waiting;
    figure.querySelector("[data-hour-span]").textContent = Math.round(span / MINUTE);
    figure.hidden = false;
  };

  document.addEventListener("semaphore-live", draw);
})();
