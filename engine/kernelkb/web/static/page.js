/* What HTML alone cannot do: a slider and its field show one number; a dropped file is sent. */
"use strict";
document.addEventListener("input", (event) => {
  const one = event.target;
  const other = document.getElementById(one.dataset.twin);
  if (other && one.value !== "" && !isNaN(one.value)) other.value = one.value;
});
document.addEventListener("change", (event) => {
  if (event.target.type === "file" && event.target.form && event.target.files.length) {
    event.target.form.requestSubmit();
  }
});
for (const name of ["dragover", "drop"]) {
  document.addEventListener(name, (event) => {
    const input = document.querySelector("input[type=file][data-drop]");
    if (!input || !event.dataTransfer || !event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    if (name === "drop") {
      input.files = event.dataTransfer.files;
      input.form.requestSubmit();
    }
  });
}
