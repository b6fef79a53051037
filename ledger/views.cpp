// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "ledger/schema.h"

namespace slip {
namespace {

std::string replace_all(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
  return text;
}

std::string time_text(const std::string& us) {
  return "strftime('%Y-%m-%dT%H:%M:%SZ', " + us + " / 1000000, 'unixepoch')";
}

LedgerView scoped(const std::string& table, const std::string& time) {
  return {"scoped_" + table, "SELECT t.*, t." + time + " / s.bucket_us * s.bucket_us AS scope_bucket_us FROM " + table +
                                 " t, report_scope s WHERE t." + time +
                                 " >= s.since_us AND (s.topic = '' OR t.topic = s.topic)"};
}

// The live and the base draft on the same text, grouped by `keys`. The sampling unit is the request, since tokens of
// one answer are not independent. The interval is the delete-one jackknife of the difference of the two ratios accepted
// / (accepted + first rejections), times Student's t for n - 1 degrees. (Cornish–Fisher expansion in 1/(n - 1), within
// 1 % from n = 4 on; no interval below that.) The length's interval is a ratio estimator's (delta method), whose
// residuals need one pass only.
LedgerView gain_by(const std::string& name, const std::string& keys, const std::string& rows = "scoped_same_text") {
  const std::string text = R"sql(
WITH totals AS (
  SELECT $keys, COUNT(*) AS n, SUM(live_accepted) AS la, SUM(live_accepted + live_first_rejections) AS ln,
         SUM(base_accepted) AS ba, SUM(base_accepted + base_first_rejections) AS bn,
         SUM(tokens) / NULLIF(SUM(live_steps), 0) AS live_length, SUM(tokens) / NULLIF(SUM(base_steps), 0) AS base_length,
         SUM(live_steps) AS ls, SUM(tokens * tokens) AS tt, SUM(tokens * live_steps) AS tl,
         SUM(live_steps * live_steps) AS ll
  FROM $rows GROUP BY $keys),
left_out AS (
  SELECT $keys, (la - live_accepted) / NULLIF(ln - live_accepted - live_first_rejections, 0) - la / ln AS live_shift,
         (ba - base_accepted) / NULLIF(bn - base_accepted - base_first_rejections, 0) - ba / bn AS base_shift
  FROM $rows JOIN totals USING ($keys)),
spread AS (
  SELECT $keys, SUM(live_shift * live_shift) AS live_ss,
         SUM((live_shift - base_shift) * (live_shift - base_shift)) AS gain_ss
  FROM left_out GROUP BY $keys),
half AS (
  SELECT $keys, CASE WHEN n >= 4 THEN
           (1.959964 + 2.372270 / (n - 1) + 2.822503 / (n - 1) / (n - 1) + 2.555853 / (n - 1) / (n - 1) / (n - 1))
           * sqrt((n - 1.0) / n) END AS factor,
         n / NULLIF(n - 1.0, 0) * sqrt(MAX(0, tt - 2 * live_length * tl + live_length * live_length * ll)) / NULLIF(ls, 0)
           AS length_spread
  FROM totals)
SELECT $keys, n AS scored_requests, la / ln AS alpha_same_text, ba / bn AS base_alpha, la / ln - ba / bn AS gain,
       la / ln - ba / bn - factor * sqrt(gain_ss) AS gain_low, la / ln - ba / bn + factor * sqrt(gain_ss) AS gain_high,
       la / ln - factor * sqrt(live_ss) AS alpha_low, la / ln + factor * sqrt(live_ss) AS alpha_high,
       live_length AS length_same_text, base_length,
       live_length - factor * length_spread AS length_low, live_length + factor * length_spread AS length_high
FROM totals JOIN spread USING ($keys) JOIN half USING ($keys))sql";
  return {name, replace_all(replace_all(text, "$keys", keys), "$rows", rows)};
}

// The scores of each version, without those of an earlier version that had the same number.
LedgerView scores_of_versions() {
  return {"version_same_text", R"sql(
SELECT t.* FROM scoped_same_text t LEFT JOIN draft_versions v ON v.draft = t.draft AND v.version = t.version
WHERE t.at_us >= IFNULL(v.created_us, t.at_us))sql"};
}

LedgerView events_view() {
  return {"events", R"sql(
SELECT at_us, )sql" + time_text("at_us") +
                        R"sql( AS time, topic, draft, kind, live_version, candidate_version AS version,
       gain, gain_low, gain_high, p_value, reason
FROM scoped_canary_decisions WHERE kind <> 'undecided'
UNION ALL
SELECT at_us, )sql" + time_text("at_us") +
                        R"sql(, topic, draft, 'drift', version, version, alpha_after - alpha_before,
       NULL, NULL, NULL, detail
FROM scoped_drift_events
ORDER BY at_us)sql"};
}

LedgerView topics_view() {
  return {"topics", R"sql(
WITH numbered AS (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY topic ORDER BY id DESC) AS age FROM scoped_requests),
served AS (
  SELECT topic, COUNT(*) AS requests, SUM(accepted) AS accepted, SUM(first_rejections) AS first_rejections,
         1.0 * SUM(accepted) / NULLIF(SUM(accepted + first_rejections), 0) AS alpha,
         1.0 * SUM(accepted) FILTER (WHERE age <= 20)
           / NULLIF(SUM(accepted + first_rejections) FILTER (WHERE age <= 20), 0) AS recent_alpha,
         1.0 * SUM(output_tokens) / NULLIF(SUM(steps), 0) AS accepted_length,
         1000.0 * SUM(output_tokens) / NULLIF(SUM(total_ms), 0) AS tokens_per_s, SUM(steps) - COUNT(*) AS decoding_steps,
         SUM(swaps) AS swaps, MAX(last_version) FILTER (WHERE age = 1) AS version, MAX(draft) FILTER (WHERE age = 1) AS draft,
         MIN(finished_us) AS first_us, MAX(finished_us) AS last_us
  FROM numbered GROUP BY topic),
proposed AS (
  SELECT topic, SUM(reached * (position = 0 AND rank = 0)) AS drafted_steps,
         NULLIF(SUM(a.accepted * (proposer <> 'unknown')), 0) AS accepted_known,
         SUM(a.accepted * (proposer = 'draft' AND rank = 0)) AS accepted_draft,
         SUM(a.accepted * (proposer = 'prompt_lookup' AND rank = 0)) AS accepted_lookup,
         SUM(a.accepted * (proposer <> 'unknown' AND rank > 0)) AS accepted_siblings
  FROM scoped_acceptance a JOIN served USING (topic)
  WHERE bucket_us + bucket_width_us > first_us GROUP BY topic),
decided AS (
  SELECT topic, COUNT(*) FILTER (WHERE kind = 'publish') AS published, COUNT(*) FILTER (WHERE kind = 'refuse') AS refused,
         COUNT(*) FILTER (WHERE kind = 'rollback') AS rolled_back, COUNT(*) FILTER (WHERE kind = 'drift') AS drift_events
  FROM events GROUP BY topic)
SELECT topic, requests, alpha, recent_alpha, t.alpha_same_text, t.base_alpha, t.gain, t.gain_low, t.gain_high,
       t.scored_requests, v.gain AS version_gain, v.gain_low AS version_gain_low, v.gain_high AS version_gain_high,
       accepted_length, t.length_same_text, t.base_length, tokens_per_s, s.draft, s.version,
       1.0 * drafted_steps / NULLIF(decoding_steps, 0) AS drafted_share,
       1.0 * accepted_draft / accepted_known AS draft_share, 1.0 * accepted_lookup / accepted_known AS lookup_share,
       1.0 * accepted_siblings / accepted_known AS sibling_share,
       IFNULL(published, 0) AS published, IFNULL(refused, 0) AS refused, IFNULL(rolled_back, 0) AS rolled_back,
       IFNULL(drift_events, 0) AS drift_events, swaps, accepted, first_rejections, first_us, last_us
FROM served s LEFT JOIN topic_gain t USING (topic) LEFT JOIN decided USING (topic) LEFT JOIN proposed USING (topic)
     LEFT JOIN version_gain v ON v.draft = s.draft AND v.version = s.version
ORDER BY topic)sql"};
}

LedgerView drift_view() {
  return {"drift", R"sql(
WITH verified AS (
  SELECT scope_bucket_us, topic, draft, version, SUM(accepted) AS accepted, SUM(first_rejections) AS first_rejections
  FROM scoped_acceptance WHERE rank = 0 GROUP BY scope_bucket_us, topic, draft, version),
answered AS (
  SELECT scope_bucket_us, topic, draft, last_version AS version, COUNT(*) AS requests, SUM(swaps) AS swaps,
         1.0 * SUM(output_tokens) / NULLIF(SUM(steps), 0) AS accepted_length
  FROM scoped_requests GROUP BY scope_bucket_us, topic, draft, last_version),
cells AS (
  SELECT scope_bucket_us, topic, draft, version FROM verified
  UNION SELECT scope_bucket_us, topic, draft, version FROM answered
  UNION SELECT scope_bucket_us, topic, draft, version FROM drift_gain)
SELECT scope_bucket_us AS bucket_us, )sql" +
                       time_text("scope_bucket_us") + R"sql( AS time, topic, draft, version,
       IFNULL(requests, 0) AS requests, 1.0 * accepted / NULLIF(accepted + first_rejections, 0) AS alpha,
       alpha_same_text, alpha_low, alpha_high, base_alpha, gain, gain_low, gain_high,
       IFNULL(scored_requests, 0) AS scored_requests, accepted_length, length_same_text, base_length,
       IFNULL(swaps, 0) AS swaps, accepted, first_rejections
FROM cells LEFT JOIN verified USING (scope_bucket_us, topic, draft, version)
     LEFT JOIN answered USING (scope_bucket_us, topic, draft, version)
     LEFT JOIN drift_gain USING (scope_bucket_us, topic, draft, version)
ORDER BY topic, bucket_us, draft, version)sql"};
}

LedgerView trend_view() {
  return {"trend", R"sql(
WITH verified AS (
  SELECT scope_bucket_us, topic, 1.0 * SUM(accepted) / NULLIF(SUM(accepted + first_rejections), 0) AS alpha
  FROM scoped_acceptance WHERE rank = 0 GROUP BY scope_bucket_us, topic),
answered AS (
  SELECT scope_bucket_us, topic, COUNT(*) AS requests, 1.0 * SUM(output_tokens) / NULLIF(SUM(steps), 0) AS accepted_length
  FROM scoped_requests GROUP BY scope_bucket_us, topic),
cells AS (
  SELECT scope_bucket_us, topic FROM verified UNION SELECT scope_bucket_us, topic FROM answered
  UNION SELECT scope_bucket_us, topic FROM trend_gain)
SELECT scope_bucket_us AS bucket_us, )sql" +
                       time_text("scope_bucket_us") + R"sql( AS time, topic,
       IFNULL(requests, 0) AS requests, alpha, alpha_same_text, alpha_low, alpha_high, base_alpha, gain, gain_low,
       gain_high, IFNULL(scored_requests, 0) AS scored_requests, accepted_length, length_same_text, length_low,
       length_high, base_length
FROM cells LEFT JOIN verified USING (scope_bucket_us, topic) LEFT JOIN answered USING (scope_bucket_us, topic)
     LEFT JOIN trend_gain USING (scope_bucket_us, topic)
ORDER BY topic, bucket_us)sql"};
}

// Predicted: the gain on the canary's held-out records before publishing. Realised: the version's gain over the base
// draft on the text it served, minus its parent's gain over the same base draft while that served. The base draft's own
// gain is 0. A number that was used again is the newer version: requests and decisions before its time are another's.
LedgerView drafts_view() {
  return {
      "drafts",
      R"sql(
WITH served AS (
  SELECT v.draft, v.version, COUNT(*) AS requests,
         1.0 * SUM(r.accepted) / NULLIF(SUM(r.accepted + r.first_rejections), 0) AS alpha
  FROM scoped_requests r JOIN draft_versions v ON v.draft = r.draft AND v.version = r.last_version
  WHERE r.finished_us >= v.created_us GROUP BY v.draft, v.version),
decided AS (
  SELECT draft, candidate_version AS version, reason, at_us, MAX(id) FROM canary_decisions
  WHERE kind = 'publish' GROUP BY draft, candidate_version),
fate AS (
  SELECT draft, live_version AS version, MAX(at_us) AS at_us FROM scoped_canary_decisions
  WHERE kind = 'rollback' GROUP BY draft, live_version)
SELECT v.created_us AS at_us, )sql" +
          time_text("v.created_us") + R"sql( AS time, v.topic, v.draft, v.version, v.parent, v.parent_draft,
       CASE WHEN f.at_us >= v.created_us THEN 'rolled back' ELSE 'published' END AS state, v.reason AS origin,
       IFNULL(d.reason, v.reason) AS reason,
       CASE WHEN v.reason = 'canary' THEN v.heldout_alpha_before END AS alpha_before,
       CASE WHEN v.reason = 'canary' THEN v.heldout_alpha END AS alpha_after,
       CASE WHEN v.reason = 'canary' THEN v.heldout_alpha - v.heldout_alpha_before END AS predicted_gain,
       own.gain - IFNULL(parent.gain, 0) AS realised_gain,
       own.gain AS gain_over_base, own.gain_low, own.gain_high,
       CASE WHEN v.reason = 'canary' THEN v.p_value END AS p_value, IFNULL(served.requests, 0) AS requests, served.alpha,
       v.optimizer_steps, v.trained_requests, v.weights_sha256
FROM scoped_draft_versions v LEFT JOIN served ON served.draft = v.draft AND served.version = v.version
     LEFT JOIN decided d ON d.draft = v.draft AND d.version = v.version AND d.at_us >= v.created_us
     LEFT JOIN fate f ON f.draft = v.draft AND f.version = v.version
     LEFT JOIN version_gain own ON own.draft = v.draft AND own.version = v.version
     LEFT JOIN version_gain parent ON parent.draft = v.parent_draft AND parent.version = v.parent
UNION ALL
SELECT at_us, )sql" +
          time_text("at_us") +
          R"sql(, topic, draft, NULL, live_version, CASE live_version WHEN 0 THEN 'base' ELSE draft END, 'refused', 'canary', reason, alpha_live,
       alpha_candidate, gain, NULL, NULL, NULL, NULL, p_value, 0, NULL, train_steps, NULL, NULL
FROM scoped_canary_decisions WHERE kind = 'refuse'
ORDER BY draft, at_us)sql"};
}

// One row per topic: sums over the period, and levels as of the newest row. The period spans all topics' rows.
LedgerView learning_view() {
  return {"learning_topics", R"sql(
WITH period AS (SELECT (MAX(at_us) - MIN(at_us)) / 1e6 + MAX(covered_s) FILTER (WHERE first = 1) AS seconds
  FROM (SELECT *, RANK() OVER (ORDER BY at_us) AS first FROM scoped_learning)),
numbered AS (SELECT *, ROW_NUMBER() OVER (PARTITION BY topic ORDER BY id DESC) AS age FROM scoped_learning),
sums AS (
  SELECT topic, SUM(requests) AS requests, SUM(records_unscored) AS records_unscored,
         SUM(optimizer_steps) AS optimizer_steps, SUM(trainer_restarts) AS trainer_restarts,
         SUM(training_s) AS training_s, SUM(scoring_s) AS scoring_s, SUM(published) AS published,
         SUM(refused) AS refused, SUM(rolled_back) AS rolled_back, SUM(realised_gain) AS realised_gain,
         COUNT(*) AS minutes, COUNT(*) FILTER (WHERE optimizer_steps > 0) AS minutes_trained,
         SUM(share_of_service * covered_s) / NULLIF(SUM(covered_s), 0) AS share_of_service,
         SUM(cost_tokens_per_s * covered_s) / NULLIF(SUM(covered_s), 0) AS cost_tokens_per_s,
         MIN(at_us) AS first_us, MAX(at_us) AS last_us
  FROM scoped_learning GROUP BY topic)
SELECT s.topic, n.draft, n.version, s.requests, n.records_waiting, s.records_unscored, s.optimizer_steps,
       s.training_s, s.scoring_s, (s.training_s + s.scoring_s) / NULLIF(p.seconds * n.cores, 0) AS share_of_machine,
       NULLIF(n.loss, 0) AS loss, n.lag_s, NULLIF(n.alpha_live, 0) AS alpha_live, NULLIF(n.alpha_base, 0) AS alpha_base,
       n.predicted_gain, s.realised_gain, s.published, s.refused, s.rolled_back, s.trainer_restarts, s.minutes,
       s.minutes_trained, s.share_of_service, s.cost_tokens_per_s, n.state, n.last_refusal, s.first_us, s.last_us
FROM sums s JOIN numbered n ON n.topic = s.topic AND n.age = 1 JOIN period p ORDER BY s.topic)sql"};
}

// Waiting for requests is one state, however many have come.
LedgerView learning_states_view() {
  return {"learning_states", R"sql(
WITH named AS (
  SELECT topic, CASE WHEN state LIKE 'waits for requests:%' THEN 'waits for requests' ELSE state END AS state, requests,
         optimizer_steps, at_us
  FROM scoped_learning)
SELECT topic, state, COUNT(*) AS minutes, SUM(requests) AS requests, SUM(optimizer_steps) AS optimizer_steps,
       MAX(at_us) AS last_us, )sql" +
                                 time_text("MAX(at_us)") + R"sql( AS last_time
FROM named GROUP BY topic, state ORDER BY topic, minutes DESC, state)sql"};
}

LedgerView learning_trend_view() {
  return {"learning_trend", R"sql(
SELECT scope_bucket_us AS bucket_us, )sql" +
                                time_text("scope_bucket_us") + R"sql( AS time, topic, SUM(requests) AS requests,
       SUM(optimizer_steps) AS optimizer_steps, SUM(training_s) AS training_s, SUM(scoring_s) AS scoring_s,
       AVG(NULLIF(loss, 0)) AS loss, MAX(lag_s) AS lag_s, AVG(NULLIF(alpha_live, 0)) AS alpha_live,
       AVG(NULLIF(alpha_base, 0)) AS alpha_base, MAX(records_waiting) AS records_waiting,
       SUM(published) AS published, SUM(refused) AS refused, SUM(rolled_back) AS rolled_back,
       AVG(share_of_service) AS share_of_service, AVG(cost_tokens_per_s) AS cost_tokens_per_s
FROM scoped_learning GROUP BY scope_bucket_us, topic ORDER BY topic, bucket_us)sql"};
}

LedgerView positions_view() {
  return {"positions", R"sql(
SELECT topic, draft, version, position, SUM(reached) AS reached, SUM(accepted) AS accepted,
       1.0 * SUM(accepted) / NULLIF(SUM(reached), 0) AS alpha
FROM scoped_acceptance WHERE rank = 0 GROUP BY topic, draft, version, position
ORDER BY topic, draft, version, position)sql"};
}

// A sibling (rank 1 and on) is tested where all choices before it for the same place were wrong.
LedgerView ranks_view() {
  return {"ranks", R"sql(
SELECT topic, draft, version, proposer, rank, SUM(reached) AS reached, SUM(accepted) AS accepted,
       1.0 * SUM(accepted) / NULLIF(SUM(reached), 0) AS rate
FROM scoped_acceptance GROUP BY topic, draft, version, proposer, rank
ORDER BY topic, draft, version, proposer, rank)sql"};
}

// A prompt has tokens. 0 stands for a request that ended while it waited: nothing of it was read.
LedgerView requests_view() {
  return {"recent_requests", "\nSELECT " + time_text("finished_us") + R"sql( AS time, topic, topic_source, draft,
       first_version, last_version, rule, temperature, NULLIF(prompt_tokens, 0) AS prompt_tokens, cached_tokens,
       output_tokens, steps, proposed, accepted, first_rejections, accepted_siblings,
       1.0 * accepted / NULLIF(accepted + first_rejections, 0) AS alpha,
       1.0 * output_tokens / NULLIF(steps, 0) AS accepted_length, swaps, repeated_tokens, ttft_ms, tpot_ms, total_ms,
       NULLIF(slo_ttft_ms, 0) AS slo_ttft_ms, NULLIF(slo_tpot_ms, 0) AS slo_tpot_ms,
       NULLIF(slo_e2e_ms, 0) AS slo_e2e_ms, slo_tier, stop_reason, http_id, request_id, finished_us
FROM scoped_requests ORDER BY id DESC)sql"};
}

// Percentiles by nearest rank.
LedgerView slo_view() {
  return {"slo", R"sql(
WITH asked AS (
  SELECT topic, slo_tier, slo_tpot_ms, slo_ttft_ms, slo_e2e_ms, output_tokens, tpot_ms, ttft_ms, total_ms,
         MAX(IFNULL(tpot_ms / NULLIF(slo_tpot_ms, 0), 0), IFNULL(ttft_ms / NULLIF(slo_ttft_ms, 0), 0),
             IFNULL(total_ms / NULLIF(slo_e2e_ms, 0), 0)) AS violation
  FROM scoped_requests
  WHERE (slo_tpot_ms > 0 OR slo_ttft_ms > 0 OR slo_e2e_ms > 0) AND stop_reason NOT IN ('cancelled', 'failed')),
ranked AS (
  SELECT *, violation <= 1 AS met, COUNT(*) OVER same AS n, ROW_NUMBER() OVER (same ORDER BY violation) AS place
  FROM asked WINDOW same AS (PARTITION BY topic, slo_tier, slo_tpot_ms, slo_ttft_ms, slo_e2e_ms))
SELECT topic, slo_tier, NULLIF(slo_tpot_ms, 0) AS slo_tpot_ms, NULLIF(slo_ttft_ms, 0) AS slo_ttft_ms,
       NULLIF(slo_e2e_ms, 0) AS slo_e2e_ms, COUNT(*) AS requests,
       1.0 * SUM(met) / COUNT(*) AS attainment, SUM(met * output_tokens) AS goodput_tokens,
       SUM(output_tokens) AS output_tokens, AVG(tpot_ms) AS tpot_ms, AVG(ttft_ms) AS ttft_ms, AVG(total_ms) AS e2e_ms,
       MAX(CASE WHEN place = (n + 1) / 2 THEN violation END) AS violation_p50,
       MAX(CASE WHEN place = (99 * n + 99) / 100 THEN violation END) AS violation_p99
FROM ranked GROUP BY topic, slo_tier, slo_tpot_ms, slo_ttft_ms, slo_e2e_ms
ORDER BY topic, slo_tier, slo_tpot_ms, slo_ttft_ms, slo_e2e_ms)sql"};
}

std::vector<LedgerView> make_views() {
  const std::string span = "(SELECT IFNULL(MAX(finished_us) - MIN(finished_us), 0) FROM requests)";
  return {
      {"report_scope", "SELECT 0 AS since_us, '' AS topic, " + bucket_for_span(span) + " AS bucket_us"},
      scoped("requests", "finished_us"),
      scoped("same_text", "at_us"),
      scoped("acceptance", "bucket_us"),
      scoped("canary_decisions", "at_us"),
      scoped("drift_events", "at_us"),
      scoped("draft_versions", "created_us"),
      scoped("learning", "at_us"),
      gain_by("topic_gain", "topic"),
      slo_view(),
      gain_by("drift_gain", "scope_bucket_us, topic, draft, version"),
      gain_by("trend_gain", "scope_bucket_us, topic"),
      scores_of_versions(),
      gain_by("version_gain", "draft, version", "version_same_text"),
      events_view(),
      topics_view(),
      drift_view(),
      trend_view(),
      drafts_view(),
      learning_view(),
      learning_states_view(),
      learning_trend_view(),
      positions_view(),
      ranks_view(),
      requests_view(),
  };
}

}  // namespace

// About 16 steps, since more would leave too few requests in each for an interval. The length is a round one, such as
// 10 min.
std::string bucket_for_span(const std::string& span_us) {
  std::string text = "(CASE";
  for (const int seconds : {10, 20, 30, 60, 120, 300, 600, 1800, 3600, 3 * 3600, 12 * 3600}) {
    text += " WHEN " + span_us + " <= " + std::to_string(16LL * seconds * 1'000'000) + " THEN " +
            std::to_string(1'000'000LL * seconds);
  }
  return text + " ELSE 86400000000 END)";
}

std::span<const LedgerView> ledger_views() {
  static const std::vector<LedgerView> views = make_views();
  return views;
}

}  // namespace slip
