// The theme, set before the first paint: as the system, light, or dark.
// A classic script on purpose: modules run only after the page was drawn.
(function () {
  "use strict";
  let chosen = null;
  try { chosen = localStorage.getItem("headgate.theme"); } catch { /* private mode */ }
  if (chosen === "light" || chosen === "dark") {
    document.documentElement.dataset.theme = chosen;
  }
})();
