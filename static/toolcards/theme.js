// Before the first paint: that scripts run here, and the theme and density this browser was set to.
(() => {
  const root = document.documentElement;
  root.dataset.scripts = '';
  try {
    for (const name of ['theme', 'density']) {
      const value = localStorage.getItem('toolcards.' + name);
      if (value) root.dataset[name] = value;
    }
  } catch (refused) { /* storage can be switched off; then the system decides */ }
})();
