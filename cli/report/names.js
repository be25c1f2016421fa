// Shows as much of each name as there is room for in the part of its box that is in sight.
const letter = 6.6;
const { start, end } = plot.x_range;
const scale = plot.inner_width / (end - start);
const { left, right, name } = source.data;
source.data.x = left.map((at) => Math.max(at, start));
source.data.shown = name.map((text, at) => {
  const seen = Math.min(right[at], end) - Math.max(left[at], start);
  const room = Math.floor((seen * scale - 8) / letter);
  if (seen <= 0 || room < 1) return "";
  if (room >= text.length) return text;
  return room >= 4 ? text.slice(0, room - 1) + "\u2026" : text.split(" ")[0].length <= room ? text.split(" ")[0] : "";
});
source.change.emit();
