// Begins the page.
import {render} from "preact";

import {follow} from "./address";
import {begin} from "./api/live";
import {App} from "./app";
import "./style.css";

const page = document.getElementById("page");
if (page !== null) {
  page.replaceChildren();
  follow();
  void begin();
  render(<App />, page);
}
