// The page on a student's phone: the question of the moment, and one answer to it.

const EVERY = 1500; // milliseconds between two looks at the question
const byId = name => document.getElementById(name);
const student = localStorage.getItem("student") ?? crypto.getRandomValues(new Uint32Array(4)).join("-");
localStorage.setItem("student", student);
let code = new URLSearchParams(location.search).get("code") ?? "";
let shown = ""; // the question on the page, with the chosen option

const tell = text => { byId("told").textContent = text; };

function show(asked) {
  const now = JSON.stringify(asked);
  if (now === shown) return;
  shown = now;
  byId("join").hidden = true;
  byId("question").textContent = asked.question || "Wait for the first question.";
  byId("options").replaceChildren(...asked.options.map((text, option) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.setAttribute("aria-pressed", String(option === asked.chosen));
    if (option === asked.chosen) button.dataset.right = "";
    button.addEventListener("click", () => send("/api/answer", { code, student, number: asked.number, option }));
    return button;
  }));
  tell(asked.chosen === null || asked.chosen === undefined ? "" : "Your answer counts. You can still change it.");
}

async function send(address, body = null) {
  try {
    const post = body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
    const response = await fetch(address, post ?? {});
    const told = await response.json();
    if (response.ok) show(told);
    else {
      tell(told.error ?? "The answer was not accepted.");
      if (response.status === 403) { code = ""; byId("join").hidden = false; }
    }
  } catch {
    tell("The lab does not respond.");
  }
}

const look = () => code && send(`/api/question?${new URLSearchParams({ code, student })}`);

byId("join").addEventListener("submit", event => {
  event.preventDefault();
  code = byId("code").value.trim();
  look();
});
setInterval(look, EVERY);
look();
