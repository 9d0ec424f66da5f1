// @ts-check
// Objects as YAML.

/** @param {string} text */
function scalar(text) {
  const bare = /^[A-Za-z_./][A-Za-z0-9_./ -]*$/.test(text) && !/^(true|false|yes|no|on|off|null|y|n|~)$/i.test(text) && text === text.trim() && !/[.]\d|: | #/.test(text);
  return bare ? text : JSON.stringify(text);
}

/** @param {any} object */
export function yaml(object) {
  /** @type {string[]} */
  const out = [];
  emit(object, 0, out);
  return out.join("\n") + "\n";
}

/** @param {any} map @param {number} depth @param {string[]} out */
function emit(map, depth, out) {
  const pad = "  ".repeat(depth);
  for (const [key, value] of Object.entries(map)) entry(`${pad}${scalar(key)}:`, value, depth, out);
}

/** @param {string} head @param {any} value @param {number} depth @param {string[]} out */
function entry(head, value, depth, out) {
  const pad = "  ".repeat(depth);
  if (Array.isArray(value) && value.length) {
    out.push(head);
    for (const item of value) {
      if (item !== null && typeof item === "object" && !Array.isArray(item) && Object.keys(item).length) {
        /** @type {string[]} */
        const below = [];
        emit(item, depth + 1, below);
        below[0] = `${pad}- ${below[0].trimStart()}`;
        out.push(...below);
      } else entry(`${pad}-`, item, depth + 1, out);
    }
  } else if (value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length) {
    out.push(head);
    emit(value, depth + 1, out);
  } else if (typeof value === "string" && /^[^\n]*\n/.test(value) && !/[\u0000-\u0008\u000b-\u001f]|^\s| \n/.test(value)) {
    out.push(`${head} |${value.endsWith("\n") ? "" : "-"}`);
    for (const line of value.replace(/\n$/, "").split("\n")) out.push(line ? `${pad}  ${line}` : "");
  } else {
    const text = typeof value === "string" ? scalar(value) : Array.isArray(value) ? "[]" : value !== null && typeof value === "object" ? "{}" : JSON.stringify(value);
    out.push(`${head} ${text}`);
  }
}

/** The part of an object that a user writes. @param {any} object */
export function editable(object) {
  const { metadata = {}, status: _status, resource: _resource, ...rest } = object;
  const { managedFields: _m, resourceVersion: _r, uid: _u, creationTimestamp: _c, generation: _g, selfLink: _s, deletionTimestamp: _d, ...kept } = metadata;
  return { apiVersion: rest.apiVersion, kind: rest.kind, metadata: kept, ...rest };
}

/**
 * The lines that differ between two texts, by the longest common beginning and end and a plain comparison between.
 * @param {string} before @param {string} after @returns {{sign: string, text: string}[]}
 */
export function diff(before, after) {
  const a = before.split("\n"), b = after.split("\n");
  let start = 0, endA = a.length, endB = b.length;
  while (start < endA && start < endB && a[start] === b[start]) start++;
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) { endA--; endB--; }
  const left = a.slice(start, endA), right = b.slice(start, endB);
  if (left.length * right.length > 4e6) return [...left.map((text) => ({ sign: "-", text })), ...right.map((text) => ({ sign: "+", text }))];
  const rows = left.length + 1, columns = right.length + 1;
  const best = new Uint32Array(rows * columns);
  for (let i = left.length - 1; i >= 0; i--) for (let j = right.length - 1; j >= 0; j--) {
    best[i * columns + j] = left[i] === right[j] ? best[(i + 1) * columns + j + 1] + 1 : Math.max(best[(i + 1) * columns + j], best[i * columns + j + 1]);
  }
  const out = [];
  for (let at = Math.max(0, start - 2); at < start; at++) out.push({ sign: " ", text: a[at] });
  let i = 0, j = 0;
  while (i < left.length || j < right.length) {
    if (i < left.length && j < right.length && left[i] === right[j]) { out.push({ sign: " ", text: left[i] }); i++; j++; }
    else if (j < right.length && (i >= left.length || best[i * columns + j + 1] > best[(i + 1) * columns + j])) out.push({ sign: "+", text: right[j++] });
    else out.push({ sign: "-", text: left[i++] });
  }
  return out;
}
