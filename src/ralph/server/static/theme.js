// Loaded in the head, before anything is painted: the theme a person chose, or the one of their system.
try {
  const chosen = localStorage.getItem("ralph-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch {
  // No storage, no choice: the system's theme stays.
}
