// Building and updating elements; text goes in as text, never as markup.

const SVG = 'http://www.w3.org/2000/svg';

/**
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element #${id}`);
  return found;
}

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {{[name: string]: string | number | boolean | null | undefined | ((event: any) => void)}} [props]
 * @param {...(Node | string | null | undefined)} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') element.addEventListener(name, value);
    else if (name === 'text') element.textContent = String(value);
    else if (name === 'class') element.className = String(value);
    else if (name === 'testid') element.dataset.testid = String(value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children) {
    if (child !== null && child !== undefined) element.append(child);
  }
  return element;
}

/**
 * @param {string} name
 * @param {string} [label]
 * @returns {SVGSVGElement}
 */
export function icon(name, label) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('class', 'icon');
  svg.setAttribute('viewBox', '0 0 16 16');
  const use = document.createElementNS(SVG, 'use');
  use.setAttribute('href', `#icon-${name}`);
  if (label) {
    svg.setAttribute('role', 'img');
    svg.setAttribute('aria-label', label);
  } else {
    svg.setAttribute('aria-hidden', 'true');
  }
  svg.append(use);
  return svg;
}

/**
 * @param {SVGSVGElement} svg
 * @param {string} name
 */
export function setIcon(svg, name) {
  const href = `#icon-${name}`;
  const use = svg.firstElementChild;
  if (use && use.getAttribute('href') !== href) use.setAttribute('href', href);
}

/**
 * Touches the document only where something changed.
 * @param {Element} element
 * @param {string} text
 */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * @param {Element} element
 * @param {string} name
 * @param {string | null} value
 */
export function setAttr(element, name, value) {
  if (value === null) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/**
 * @param {Element} element
 * @param {number | null | undefined} value
 */
export function setValue(element, value) {
  setAttr(element, 'data-value', value === null || value === undefined ? '' : String(value));
}

/**
 * @param {HTMLElement} element
 * @param {boolean} shown
 */
export function show(element, shown) {
  if (element.hidden === shown) element.hidden = !shown;
}

/**
 * Updates children in place by key, so that focus and selection stay where they are.
 * @template T
 * @template {HTMLElement} E
 * @param {HTMLElement} parent
 * @param {T[]} items
 * @param {(item: T) => string} keyOf
 * @param {(item: T) => E} create
 * @param {(element: E, item: T) => void} [update]
 */
export function keyed(parent, items, keyOf, create, update) {
  /** @type {Map<string, E>} */
  const present = new Map();
  for (const child of parent.children) {
    const element = /** @type {E} */ (child);
    if (element.dataset.key !== undefined) present.set(element.dataset.key, element);
  }
  /** @type {Element | null} */
  let at = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let element = present.get(key);
    present.delete(key);
    if (!element) {
      element = create(item);
      element.dataset.key = key;
    }
    if (element === at) at = at.nextElementSibling;
    else parent.insertBefore(element, at);
    update?.(element, item);
  }
  for (const gone of present.values()) gone.remove();
}

/**
 * Tells each cell the head of its column: a phone shows a row as a card. @param {HTMLElement} body
 */
export function labelled(body) {
  const table = /** @type {HTMLTableElement} */ (body.closest('table'));
  const heads = [...table.tHead?.rows[0].cells ?? []].map((head) => head.textContent ?? '');
  for (const row of table.tBodies[0].rows) [...row.cells].forEach((cell, at) => setAttr(cell, 'data-label', heads[at]));
}

/**
 * Texts of the server set commands in backticks.
 * @param {Element} element
 * @param {string} text
 */
export function setCodeText(element, text) {
  if (element.getAttribute('data-text') === text) return;
  element.setAttribute('data-text', text);
  const parts = text.split('`');
  element.replaceChildren(
    ...parts.map((part, at) => (at % 2 === 1 && at < parts.length - 1 ? h('code', { text: part }) : part)),
  );
}

/**
 * @param {HTMLElement} bar
 * @param {number | null} share
 */
export function setBar(bar, share) {
  const width = `${(Math.max(0, Math.min(1, share ?? 0)) * 100).toFixed(2)}%`;
  if (bar.style.width !== width) bar.style.width = width;
}
