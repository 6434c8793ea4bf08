// Numbers and times as people read them.

export function number(x, digits = 4) {
  if (x === null || x === undefined || !Number.isFinite(x)) return "–";
  if (Number.isInteger(x) && Math.abs(x) < 1e15) return x.toLocaleString("en-US");
  const size = Math.abs(x);
  if (size !== 0 && (size >= 1e7 || size < 1e-4)) return x.toExponential(digits - 1);
  return String(Number(x.toPrecision(digits)));
}

export const percent = (x) => (x === null || x === undefined ? "–" : `${(100 * x).toFixed(Math.abs(x) > 0.995 ? 1 : 0)}%`);

export function ago(milliseconds) {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 120) return `${seconds} s ago`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} days ago`;
}

export const time = (milliseconds) => new Date(milliseconds).toISOString().replace("T", " ").slice(0, 19);

export const plural = (n, one, many = `${one}s`) => `${n.toLocaleString("en-US")} ${n === 1 ? one : many}`;
