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

// The same with plain content: elements that stay keep focus, selection and place, and `details` stay open.
export function refresh(parent, ...children) {
  const old = [...parent.childNodes];
  const fresh = children.filter((child) => child !== null && child !== undefined);
  fresh.forEach((child, i) => (i < old.length ? patch(old[i], child) : parent.append(child)));
  old.slice(fresh.length).forEach((child) => child.remove());
}

function patch(old, fresh) {
  if (typeof fresh === "string") fresh = document.createTextNode(fresh);
  if (old.nodeName !== fresh.nodeName) return old.replaceWith(fresh);
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return undefined;
  }
  for (const name of old.getAttributeNames()) if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  return refresh(old, ...fresh.childNodes);
}

// Rows are lists of cells: text, a number, or an element. `numbers` are the columns on the right. With `cards` a row is
// a block on a phone, where each cell says its column.
export function table(heads, rows, { caption = "", numbers = [], cards = false } = {}) {
  const kind = (i) => (numbers.includes(i) ? "n" : undefined);
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption || heads.join(", ") },
    el("table", { class: cards ? "cards" : undefined },
      caption ? el("caption", {}, caption) : null,
      el("thead", {}, el("tr", {}, ...heads.map((head, i) => el("th", { scope: "col", class: kind(i) }, head)))),
      el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell, i) => el("td", { class: kind(i), "data-head": heads[i] }, cell)))))));
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
