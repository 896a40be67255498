-- Views for people: their names and columns stay when the tables behind them change.
CREATE VIEW v_files AS
SELECT
    f.id,
    -- all that follows the last slash: rtrim strips every character that is not one
    substr(f.path, length(rtrim(f.path, replace(f.path, '/', ''))) + 1) AS name,
    f.path,
    i.path AS inbox,
    f.state,
    f.reason,
    f.kind,
    f.size,
    f.sha256,
    f.pages,
    f.pages
        - (SELECT count(*) FROM pages p WHERE p.file = f.id AND p.state = 'pending')
        - (SELECT count(*) FROM pages p WHERE p.file = f.id AND p.state = 'in_flight') AS pages_done,
    f.attempts,
    f.deaths,
    o.path AS duplicate_of,
    f.duplicate_of AS duplicate_of_id,
    f.delivery,
    f.delivery_reason,
    f.priority,
    f.current,
    f.run,
    f.first_seen,
    f.settled,
    f.started,
    f.finished,
    f.next_try_at,
    round((julianday(f.finished) - julianday(f.first_seen)) * 86400, 3) AS seconds
FROM files f
JOIN inboxes i ON i.id = f.inbox
LEFT JOIN files o ON o.id = f.duplicate_of;

CREATE VIEW v_pages AS
SELECT
    p.id,
    p.file,
    f.path,
    p.number AS page,
    p.state,
    p.reason,
    p.engine,
    p.model,
    p.attempts,
    p.deaths,
    p.run,
    p.batch,
    p.tokens_in,
    p.tokens_out,
    p.finish,
    p.confidence,
    p.mean_logprob,
    p.ink,
    p.turned,
    p.width,
    p.height,
    p.render_s,
    p.queue_s,
    p.first_token_s,
    round(p.seconds - coalesce(p.render_s, 0), 6) AS read_s,
    p.seconds,
    p.claimed,
    p.finished,
    p.next_try_at,
    length(p.text) AS chars,
    p.text,
    p.boxes
FROM pages p
JOIN files f ON f.id = p.file;

CREATE VIEW v_failures AS
SELECT
    f.id AS file,
    f.path,
    NULL AS page,
    f.state,
    f.reason,
    f.attempts,
    f.deaths,
    f.finished AS at
FROM files f
WHERE f.state = 'quarantined' AND f.current = 1
UNION ALL
SELECT
    f.id,
    f.path,
    p.number,
    p.state,
    p.reason,
    p.attempts,
    p.deaths,
    p.finished
FROM pages p
JOIN files f ON f.id = p.file
WHERE p.state IN ('suspect', 'failed') AND f.current = 1;

CREATE VIEW v_daily AS
WITH
seen AS (
    SELECT date(first_seen) AS day, count(*) AS files FROM files GROUP BY 1
),
ended AS (
    SELECT
        date(finished) AS day,
        sum(state = 'done') AS done,
        sum(state = 'duplicate') AS duplicates,
        sum(state = 'quarantined') AS quarantined,
        sum(state = 'skipped') AS skipped,
        sum(state = 'vanished') AS vanished
    FROM files
    WHERE finished IS NOT NULL
    GROUP BY 1
),
read AS (
    SELECT
        date(finished) AS day,
        count(*) AS pages,
        sum(state = 'blank') AS blank,
        sum(state = 'suspect') AS suspect,
        sum(state = 'failed') AS failed,
        sum(tokens_in) AS tokens_in,
        sum(tokens_out) AS tokens_out,
        sum(seconds) AS seconds
    FROM pages
    WHERE finished IS NOT NULL
    GROUP BY 1
),
days AS (
    SELECT day FROM seen UNION SELECT day FROM ended UNION SELECT day FROM read
)
SELECT
    days.day,
    coalesce(seen.files, 0) AS files_seen,
    coalesce(ended.done, 0) AS files_done,
    coalesce(ended.duplicates, 0) AS files_duplicate,
    coalesce(ended.quarantined, 0) AS files_quarantined,
    coalesce(ended.skipped, 0) AS files_skipped,
    coalesce(ended.vanished, 0) AS files_vanished,
    coalesce(read.pages, 0) AS pages,
    coalesce(read.blank, 0) AS pages_blank,
    coalesce(read.suspect, 0) AS pages_suspect,
    coalesce(read.failed, 0) AS pages_failed,
    coalesce(read.tokens_in, 0) AS tokens_in,
    coalesce(read.tokens_out, 0) AS tokens_out,
    round(coalesce(read.seconds, 0), 3) AS seconds
FROM days
LEFT JOIN seen ON seen.day = days.day
LEFT JOIN ended ON ended.day = days.day
LEFT JOIN read ON read.day = days.day
ORDER BY days.day;

CREATE VIEW v_throughput AS
SELECT
    strftime('%Y-%m-%d %H:00', finished) AS hour,
    engine,
    count(*) AS pages,
    sum(state IN ('suspect', 'failed')) AS pages_doubtful,
    round(count(*) / 60.0, 3) AS pages_per_minute,
    sum(tokens_in) AS tokens_in,
    sum(tokens_out) AS tokens_out,
    round(avg(seconds), 3) AS seconds_per_page
FROM pages
WHERE finished IS NOT NULL
GROUP BY 1, 2;
