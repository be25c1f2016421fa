// A click on the head of a column sorts the table, the largest first, and a second one turns it round. Rows inside a
// group stay after it.
document.addEventListener("click", (event) => {
  const head = event.target.closest("thead th");
  if (!head) return;
  const body = head.closest("table").tBodies[0], down = head.dataset.order !== "down";
  const groups = [];
  for (const row of body.rows) {
    if (row.classList.contains("inside") && groups.length) groups[groups.length - 1].push(row);
    else groups.push([row]);
  }
  const text = (group) => group[0].cells[head.cellIndex].textContent.trim();
  const number = (group) => parseFloat(text(group).replaceAll(",", ""));
  groups.sort((a, b) => {
    const x = number(a), y = number(b);
    if (isNaN(x) !== isNaN(y)) return isNaN(x) ? 1 : -1;
    const order = isNaN(x) ? text(b).localeCompare(text(a)) : x - y;
    return down ? -order : order;
  });
  head.dataset.order = down ? "down" : "up";
  body.append(...groups.flat());
});
