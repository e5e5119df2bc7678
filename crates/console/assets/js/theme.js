// A classic script in the head, so that the theme stands before the first paint.
(() => {
  const KEY = 'tidegate.theme';
  let theme = 'system';
  try {
    theme = localStorage.getItem(KEY) ?? 'system';
  } catch {
    // Without storage the system's theme stands.
  }
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
})();
