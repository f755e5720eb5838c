// Loaded in the head, before anything is painted: apply the chosen theme.
try {
  const chosen = localStorage.getItem("ralph-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch {
  // No storage: keep the system theme.
}
