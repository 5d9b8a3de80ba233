// The page's script. Reading needs none of it; it makes acting, keeping up and the keyboard possible. Everything that
// changes something goes through the HTTP API, so that page, CLI and API can do the same.
import { forms } from "./forms.js";
import { live } from "./live.js";
import { keys } from "./keys.js";
import { selection } from "./select.js";
import { completion } from "./complete.js";
import { reader } from "./reader.js";
import { menus } from "./menu.js";
import { ages } from "./ages.js";
import { troubles } from "./troubles.js";

reader();
forms(document);
selection();
completion(document.getElementById("q"), document.getElementById("q-list"));
menus();
keys();
live();
troubles();
ages();
// On a narrow screen the rooms scroll sideways; the one that one is in is in sight.
document.querySelector(".rooms [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
