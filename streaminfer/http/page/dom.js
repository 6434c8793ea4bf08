// Builds elements. Text is always set as text, so nothing that comes from events is ever read as markup.

export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function fill(parent, ...children) {
  parent.replaceChildren(...children.filter((child) => child !== null && child !== undefined));
}

// Rows are lists of cells: text, a number, or an element. `numbers` are the columns on the right.
export function table(heads, rows, { caption = "", numbers = [] } = {}) {
  const kind = (i) => (numbers.includes(i) ? "n" : undefined);
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption || heads.join(", ") },
    el("table", {},
      caption ? el("caption", {}, caption) : null,
      el("thead", {}, el("tr", {}, ...heads.map((head, i) => el("th", { scope: "col", class: kind(i) }, head)))),
      el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell, i) => el("td", { class: kind(i) }, cell)))))));
}

const MARKS = { good: "✓", trusted: "✓", healthy: "✓", watch: "!", starting: "…", fail: "✗", do_not_trust: "✗", silent: "✗", unknown: "?" };
const WORDS = { do_not_trust: "do not trust" };

// A status is a sign and a word, never a colour alone.
export function status(value) {
  return el("span", { class: `status ${value}` }, `${MARKS[value] ?? "?"} ${WORDS[value] ?? value}`);
}

export function section(id, title, why) {
  const body = el("div", { id: `${id}-body` });
  return [el("section", { id, "aria-labelledby": `${id}-title` },
    el("h2", { id: `${id}-title` }, title), el("p", { class: "why" }, why), body), body];
}
