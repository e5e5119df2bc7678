// The page: its parts are started once, drawn once a frame at most, and fed by the stream.

import { openSteer } from './actions.js';
import { session } from './api.js';
import { renderCampaignPage, startCampaignPage } from './campaign-page.js';
import { renderCampaigns, startCampaigns } from './campaigns.js';
import { recolour, renderChart, startChart } from './chart.js';
import { renderDead, startDead } from './dead.js';
import { byId, h, icon, setAttr, setIcon, setText } from './dom.js';
import { renderLimits, startLimits } from './limits.js';
import { renderRuns } from './runs.js';
import { renderChanges, renderEvents, startEvents } from './events.js';
import { startExport } from './export.js';
import { renderHeader, startHeader } from './header.js';
import { pausedAll, startKeys } from './help.js';
import { renderHolds } from './holds.js';
import { startLetters } from './letter.js';
import { mayAct, model, onFrame, touch } from './model.js';
import { start } from './stream.js';
import { renderTiles, startTiles } from './tiles.js';
import { renderView, startView } from './view.js';
import { openWeights } from './weights.js';
import { renderWho, startWho } from './who.js';
import { askWhy, renderWhy, startWhy } from './why.js';
import { say } from './words.js';

const pause = h('button', { type: 'button', class: 'strong', testid: 'pause-all', 'data-acts': true, 'aria-keyshortcuts': 'p', title: 'Pause or resume all sending (p)', click: () => openSteer(pausedAll() ? 'resume' : 'pause', null) },
  icon('pause'), h('span', { text: 'Pause all' }));

function renderActions() {
  const paused = pausedAll();
  setText(/** @type {Element} */ (pause.querySelector('span')), paused ? 'Resume all' : 'Pause all');
  setIcon(/** @type {SVGSVGElement} */ (pause.querySelector('svg')), paused ? 'play' : 'pause');
  setAttr(pause, 'data-action', paused ? 'resume' : 'pause');
  pause.disabled = !model.figures;
}

startHeader(recolour);
startWho();
onFrame(renderHeader);
onFrame(renderWho);
touch();
// Ages go on between two events; a hidden tab draws no frame.
setInterval(touch, 1_000);

/** All that has the channel's words in it. */
function build() {
  byId('actions').append(pause,
    h('button', { type: 'button', 'aria-keyshortcuts': '/', title: 'Why is this message waiting? (/)', click: () => askWhy() }, icon('search'), h('span', { text: 'Why does it wait?' })));
  byId('open-weights').addEventListener('click', () => openWeights());

  startTiles();
  startChart();
  startCampaigns();
  startCampaignPage();
  startExport();
  startView();
  startDead();
  startLimits();
  startWhy();
  startEvents();
  startKeys();

  for (const render of [renderView, renderActions, renderHolds, renderTiles, renderCampaignPage, renderChart, renderCampaigns, renderRuns, renderDead, renderLimits, renderWhy, renderEvents, renderChanges]) onFrame(render);
}

/** Tried until the console answers. */
async function begin() {
  try {
    model.session = await session();
  } catch {
    model.connection = 'reconnecting';
    touch();
    setTimeout(begin, 5_000);
    return;
  }
  Object.assign(say, model.session.words);
  build();
  document.documentElement.classList.add('ready');
  document.documentElement.classList.toggle('looks', !mayAct());
  touch();
  start();
  startLetters();
}

begin();
