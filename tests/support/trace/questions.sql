-- The questions of questions.py, for trace_processor:  trace_processor_shell -q tests/support/trace/questions.sql t.pftrace
-- Each query says what it should find.

-- Every track has a name: none without.
SELECT count(*) AS tracks_without_a_name FROM track WHERE id IN (SELECT track_id FROM slice) AND name IS NULL AND id NOT IN (SELECT id FROM thread_track);

-- Slices are balanced: none stays open.
SELECT count(*) AS slices_never_ended FROM slice WHERE dur < 0;

-- Slices are nested: no two of one track overlap without one being in the other.
SELECT count(*) AS slices_that_overlap
FROM slice AS a JOIN slice AS b ON a.track_id = b.track_id AND a.depth = b.depth AND a.id < b.id
WHERE a.dur > 0 AND b.dur > 0 AND a.ts < b.ts + b.dur AND b.ts < a.ts + a.dur;

-- No import error: nothing was malformed.
SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0;

-- Each tick is on its worker's track and on its task's: both counts are equal.
SELECT (SELECT count(*) FROM slice WHERE category = 'tick') AS ticks, (SELECT count(*) FROM slice WHERE category = 'run') AS runs;

-- Missed releases of each task by cause and by whom: as in the status and the summary.
SELECT
  track.name AS task,
  EXTRACT_ARG(slice.arg_set_id, 'debug.cause') AS cause,
  EXTRACT_ARG(slice.arg_set_id, 'debug.by') AS by_whom,
  sum(EXTRACT_ARG(slice.arg_set_id, 'debug.count')) AS missed
FROM slice JOIN track ON slice.track_id = track.id
WHERE slice.category = 'miss'
GROUP BY 1, 2, 3 ORDER BY 1, 4 DESC;

-- Each blocked miss has a flow from a tick of the task that is to blame: none without.
SELECT count(*) AS blocked_without_a_blocker
FROM slice AS miss
WHERE miss.category = 'miss' AND EXTRACT_ARG(miss.arg_set_id, 'debug.cause') = 'blocked' AND NOT EXISTS (
  SELECT 1 FROM flow
  JOIN slice AS tick ON flow.slice_out = tick.id
  JOIN track ON tick.track_id = track.id
  WHERE flow.slice_in = miss.id AND tick.category = 'tick' AND track.name = 'task ' || EXTRACT_ARG(miss.arg_set_id, 'debug.by')
);
