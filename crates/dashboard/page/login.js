// @ts-check
// The login: by a token, or by the code of a one-time link, which is in the fragment and never sent in a URL.

const wrong = /** @type {HTMLElement} */ (document.getElementById("wrong"));

/** @param {object} body */
async function login(body) {
  wrong.textContent = "";
  const answer = await fetch("/login", {
    method: "POST",
    headers: { "content-type": "application/json", "x-evenkeel-page": "1" },
    body: JSON.stringify(body),
  });
  if (answer.ok) {
    const view = sessionStorage.getItem("evenkeel-view") ?? "";
    history.replaceState(null, "", "/" + view);
    location.reload();
    return;
  }
  wrong.textContent = (await answer.json()).message;
}

const code = /^#code=([0-9a-f]+)$/.exec(location.hash)?.[1];
if (code) {
  history.replaceState(null, "", "/");
  login({ code });
} else if (location.hash.startsWith("#/")) {
  // A link to a view: come back to it after the login.
  sessionStorage.setItem("evenkeel-view", location.hash);
}

/** @type {HTMLFormElement} */ (document.getElementById("form")).addEventListener("submit", (event) => {
  event.preventDefault();
  const token = /** @type {HTMLInputElement} */ (document.getElementById("token"));
  login({ token: token.value });
});
