// SPDX-License-Identifier: Apache-2.0
#include "cli/config/serve_config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "cli/process/usable_cores.h"
#include "common/error.h"
#include "common/file.h"

namespace slip::cli {
namespace {

const std::filesystem::path kSource = SLIPSTREAM_SOURCE_DIR;

ServeConfig defaults() {
  ServeConfig config;
  config.topics = built_in_topics();
  return config;
}

Error fault_of(const std::string& toml) {
  try {
    parse_serve_config(toml, "my.toml", defaults());
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "accepted: " << toml;
  return Error(ErrorCode::kInternal, "accepted");
}

// The file documents the defaults, so it must say what they are.
TEST(ServeConfig, DefaultFileHoldsTheDefaults) {
  std::string text = read_file(kSource / "configs/default.toml", 1 << 20);
  const std::string file = R"(file = "configs/topics.toml")";
  ASSERT_NE(text.find(file), std::string::npos);
  text.replace(text.find(file), file.size(), "file = \"" + (kSource / "configs/topics.toml").string() + "\"");
  ServeConfig parsed = parse_serve_config(text, "default.toml", ServeConfig{});
  EXPECT_EQ(parsed.target, "checkpoints/demo/target");
  EXPECT_EQ(parsed.draft, "checkpoints/demo/draft");
  parsed.target.clear();
  parsed.draft.clear();
  EXPECT_EQ(to_toml(parsed), to_toml(defaults()));
}

// … and it has every key once, with its default, range and help.
TEST(ServeConfig, DefaultFileIsTheListOfKeys) {
  const std::string text = read_file(kSource / "configs/default.toml", 1 << 20);
  ServeConfig config;
  config.target = "checkpoints/demo/target";
  config.draft = "checkpoints/demo/draft";
  config.topics_file = "configs/topics.toml";
  EXPECT_EQ(text.substr(text.find("\n[") + 1), to_commented_toml(config))
      << "copy what `slipstream serve -c configs/default.toml --list-config` prints";
}

TEST(ServeConfig, ListedValuesReadBackTheSame) {
  ServeConfig config =
      parse_serve_config("[learning]\ngovernor = \"steps_per_request:2.5\"\nsave_s = 7\n", "my.toml", defaults());
  config.target = "a \"b\" # \\c/größer";
  config.served_names = {"a", "org/b:größer"};
  config.learner.canary.margin = 1.0 / 3;
  const std::string listed = to_commented_toml(config);
  EXPECT_EQ(to_toml(parse_serve_config(listed, "listed.toml", defaults())), to_toml(config)) << listed;
}

TEST(ServeConfig, EffectiveConfigurationReadsBackTheSame) {
  const std::string text = R"(
[model]
target = "t"
dtype = "float32"
served_names = ["a", "org/b:größer"]
[server]
port = 0
tls_certificate = "c.pem"
tls_key = "k.pem"
key_requests_in_flight = 2
key_tokens_per_minute = 600
expose_acceptance = "own"
[learning]
device = "cuda"
governor = "steps_per_request:2.5"
loss = "jsd"
optimizer = "adamw"
[ledger]
commit_interval_ms = 250
)";
  const ServeConfig config = parse_serve_config(text, "my.toml", defaults());
  EXPECT_EQ(config.governor.kind, GovernorKind::kStepsPerRequest);
  EXPECT_DOUBLE_EQ(config.governor.steps_per_request, 2.5);
  EXPECT_EQ(config.learner.trainer.device, TrainingDevice::kCuda);
  EXPECT_EQ(config.learner.trainer.optimizer, OptimizerKind::kAdamW);
  EXPECT_EQ(defaults().learner.trainer.optimizer, OptimizerKind::kMuon);
  EXPECT_EQ(config.server.expose_acceptance, ExposeAcceptance::kOwn);
  EXPECT_EQ(config.server.key_limits.tokens_per_minute, 600);
  EXPECT_EQ(config.ledger.commit_interval_us, 250'000);
  EXPECT_EQ(config.dtype, Dtype::kFloat32);
  std::string effective = to_toml(config);
  EXPECT_NE(effective.find("steps_per_request:2.5"), std::string::npos);
}

TEST(ServeConfig, TrainingIsAnInvestmentUnlessToldOtherwise) {
  const GovernorChoice defaults_choice = parse_serve_config("", "my.toml", defaults()).governor;
  EXPECT_EQ(defaults_choice.kind, GovernorKind::kPayback);
  EXPECT_DOUBLE_EQ(defaults_choice.max_share, 0.1);
  EXPECT_DOUBLE_EQ(defaults_choice.payback_s, 600);
  const ServeConfig config = parse_serve_config(
      "[learning]\ngovernor = \"payback\"\nmax_share = 0.25\npayback_s = 60\n", "my.toml", defaults());
  EXPECT_DOUBLE_EQ(config.governor.max_share, 0.25);
  EXPECT_DOUBLE_EQ(config.governor.payback_s, 60);
  EXPECT_NE(to_toml(config).find("governor = 'payback'"), std::string::npos);
  const ServeConfig slack = parse_serve_config("[learning]\ngovernor = \"slack\"\n", "my.toml", defaults());
  EXPECT_EQ(slack.governor.kind, GovernorKind::kSlack);
  EXPECT_NE(to_toml(slack).find("governor = 'slack'"), std::string::npos);
}

TEST(ServeConfig, TiersAreSpeedsWithNames) {
  const ServeConfig config = parse_serve_config(
      "[slo]\ntiers = [\"fast: tpot=40.5, ttft=500\", \" soon : e2e = 20000 \"]\n", "my.toml", defaults());
  ASSERT_EQ(config.slo_tiers.size(), 2U);
  EXPECT_EQ(config.slo_tiers[0].name, "fast");
  EXPECT_EQ(config.slo_tiers[0].slo.tpot_us, 40'500);
  EXPECT_EQ(config.slo_tiers[0].slo.ttft_us, 500'000);
  EXPECT_EQ(config.slo_tiers[1].slo.e2e_us, 20'000'000);
  EXPECT_NE(to_toml(config).find("tiers = [ 'fast: tpot=40.5, ttft=500', 'soon: e2e=20000' ]"), std::string::npos)
      << to_toml(config);
  for (const char* tier : {"fast", "fast:", "fast: tpot=0", "fast tpot=4", ": tpot=4", "f st: tpot=4", "fast: tpot=4,",
                           "auto: tpot=4", "default: tpot=4"}) {
    EXPECT_THROW(parse_serve_config("[slo]\ntiers = [\"" + std::string(tier) + "\"]\n", "my.toml", defaults()), Error)
        << tier;
  }
  EXPECT_THROW(parse_serve_config("[slo]\ntiers = [\"a: tpot=4\", \"a: tpot=5\"]\n", "my.toml", defaults()), Error);
}

TEST(ServeConfig, TheDeviceIsTheCpuUnlessToldOtherwise) {
  EXPECT_EQ(parse_serve_config("", "my.toml", defaults()).device, Device::kCpu);
  const ServeConfig config = parse_serve_config("[model]\ndevice = \"cuda\"\n", "my.toml", defaults());
  EXPECT_EQ(config.device, Device::kCuda);
  EXPECT_NE(to_toml(config).find("device = 'cuda'"), std::string::npos);
}

TEST(ServeConfig, UnknownKeysNameLineAndNearest) {
  const Error error = fault_of("[server]\nhost = \"127.0.0.1\"\nprot = 1\n");
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(error.message().find("my.toml:3: "), std::string::npos) << error.message();
  EXPECT_NE(error.message().find("server.prot"), std::string::npos);
  EXPECT_NE(error.hint().find("server.port"), std::string::npos) << error.hint();
  const Error section = fault_of("\n[serverr]\n");
  EXPECT_NE(section.message().find("my.toml:2: unknown section serverr"), std::string::npos) << section.message();
  EXPECT_NE(section.hint().find("server"), std::string::npos);
  EXPECT_NE(fault_of("xyzzyxyzzy = 1").hint().find("--list-config"), std::string::npos);
}

TEST(ServeConfig, ValuesAreChecked) {
  const std::pair<const char*, const char*> cases[] = {
      {"[server]\nport = 65536", "server.port"},
      {"[server]\nport = \"80\"", "server.port"},
      {"[server]\nport = 1.5", "server.port"},
      {"[server]\nio_threads = 3", "server.io_threads"},
      {"[server]\nexpose_acceptance = \"some\"", "server.expose_acceptance"},
      {"[server]\nallowed_hosts = \"x\"", "server.allowed_hosts"},
      {"[server]\nallowed_hosts = [1]", "server.allowed_hosts"},
      {"[model]\ndtype = \"int8\"", "model.dtype"},
      {"[model]\ndevice = \"gpu\"", "model.device"},
      {"[model]\ndevice = \"cuda\"\ndtype = \"float32\"", "model.device"},
      {"[server]\nkey_requests_per_minute = -1", "server.key_requests_per_minute"},
      {"[server]\nkey_requests_in_flight = 4294967297", "server.key_requests_in_flight"},
      {"[model]\nserved_names = [\"\"]", "model.served_names"},
      {"[model]\nserved_names = [\"a\", \"b\", \"a\"]", "model.served_names"},
      {"[server]\nmax_buffered_bytes = 8388607", "server.max_buffered_bytes"},
      {"[model]\nserved_names = [\"a\", \"b\\nc\"]", "model.served_names"},
      {"[model]\ntarget = 5", "model.target"},
      {"[model]\ntarget = \"a\\u0000b\"", "model.target"},
      {"[engine]\nmax_running = 0", "engine.max_running"},
      {"[speculation]\nk = 17", "speculation.k"},
      {"[speculation]\nenabled = 1", "speculation.enabled"},
      {"[speculation]\nprompt_lookup = 3", "speculation.prompt_lookup"},
      {"[learning]\ngovernor = \"fast\"", "learning.governor"},
      {"[learning]\ngovernor = \"steps_per_request:\"", "learning.governor"},
      {"[learning]\ngovernor = \"steps_per_request:-1\"", "learning.governor"},
      {"[learning]\ngovernor = \"steps_per_request:2x\"", "learning.governor"},
      {"[learning]\nmax_share = 1.5", "learning.max_share"},
      {"[learning]\nmax_share = -0.1", "learning.max_share"},
      {"[learning]\npayback_s = 0", "learning.payback_s"},
      {"[learning]\nlearning_rate = nan", "learning.learning_rate"},
      {"[learning]\nlearning_rate = inf", "learning.learning_rate"},
      {"[learning]\nmatrix_learning_rate = 2", "learning.matrix_learning_rate"},
      {"[learning]\noptimizer = \"sgd\"", "learning.optimizer"},
      {"[learning]\nloss = \"mse\"", "learning.loss"},
      {"[learning]\ndevice = \"tpu\"", "learning.device"},
      {"[canary]\nodds_to_publish = 0", "canary.odds_to_publish"},
      {"[learning]\nsave_s = 0", "learning.save_s"},
      {"[ledger]\ncommit_interval_ms = 5000", "ledger.commit_interval_ms"},
      {"model = 5", "model"},
  };
  for (const auto& [toml, param] : cases) {
    const Error error = fault_of(toml);
    EXPECT_EQ(error.param(), param) << toml;
    EXPECT_NE(error.message().find("my.toml:"), std::string::npos) << error.message();
  }
}

// S14: acceptance counts are an oracle on what a draft learned from others.
TEST(ServeConfig, SeveralKeysHideAcceptanceUnlessToldOtherwise) {
  const auto exposed = [](const std::string& toml, std::size_t n_keys) {
    return server_options(parse_serve_config(toml, "my.toml", defaults()), n_keys).expose_acceptance;
  };
  EXPECT_EQ(exposed("", 0), ExposeAcceptance::kAll);
  EXPECT_EQ(exposed("", 1), ExposeAcceptance::kAll);
  EXPECT_EQ(exposed("", 2), ExposeAcceptance::kNone);
  EXPECT_EQ(exposed("[server]\nexpose_acceptance = \"all\"", 2), ExposeAcceptance::kAll);
  EXPECT_EQ(exposed("[server]\nexpose_acceptance = \"own\"", 2), ExposeAcceptance::kOwn);
  EXPECT_EQ(exposed("[server]\nexpose_acceptance = \"none\"", 0), ExposeAcceptance::kNone);
}

TEST(ServeConfig, BrokenTomlNamesTheLine) {
  EXPECT_NE(fault_of("[server]\nport = = 1\n").message().find("my.toml:2"), std::string::npos);
}

// Bug: a key of 40,000 parts overflowed the stack, at a start and at a reload.
TEST(ServeConfig, AKeyOfManyPartsIsRefused) {
  const auto parts = [](int n, const std::string& part) {
    std::string key = part;
    for (int i = 1; i < n; ++i) key += "." + part;
    return key;
  };
  for (const int n : {300, 40'000, 200'000}) {
    for (const std::string& part : {std::string("a"), std::string("\"a b\""), std::string(" a ")}) {
      const std::string key = parts(n, part);
      for (const std::string& text :
           {key + " = 1\n", "[" + key + "]\n", "[[" + key + "]]\n", "x = {" + key + " = 1}\n"}) {
        const Error fault = fault_of("[server]\n" + text);
        EXPECT_NE(fault.message().find("my.toml:2: a key has more than 256 parts"), std::string::npos)
            << fault.message().substr(0, 200);
      }
    }
  }
  const std::string prose = "# " + std::string(5000, '.') + "\n# 1.2.3, 4.5.6; " + parts(200, "x") + "\n";
  EXPECT_EQ(parse_serve_config(prose + "[model]\ntarget = \"t\"\n", "my.toml", {}).target, "t");
}

TEST(ServeConfig, CommandLineWins) {
  ServeOverrides given;
  given.target = "T";
  given.k = 5;
  given.port = 0;
  given.data_dir = "D";
  given.no_learning = given.no_speculation = true;
  const ServeConfig config = load_serve_config(given);
  EXPECT_EQ(config.target, "T");
  EXPECT_TRUE(config.draft.empty());
  EXPECT_EQ(config.engine.k, 5);
  EXPECT_EQ(config.server.port, 0);
  EXPECT_EQ(config.data_dir, "D");
  EXPECT_FALSE(config.learning);
  EXPECT_FALSE(config.speculation);
  EXPECT_EQ(TopicTable(config.topics).size(), 5U) << "four and the unknown";
}

TEST(ServeConfig, ATargetOfItsOwnDropsTheFilesDraftAndTemplate) {
  const auto file = std::filesystem::temp_directory_path() / ("slip-config-" + std::to_string(::getpid()) + ".toml");
  replace_file(file, "[model]\ntarget = \"a\"\ndraft = \"b\"\nchat_template = \"t\"\n", "test");
  ServeOverrides given;
  given.config = file.string();
  EXPECT_EQ(load_serve_config(given).draft, "b");
  EXPECT_EQ(load_serve_config(given).chat_template, "t");
  EXPECT_TRUE(load_serve_config(given).warnings.empty());
  given.target = "./a";
  EXPECT_EQ(load_serve_config(given).draft, "b") << "the same target";
  given.target = "c";
  EXPECT_TRUE(load_serve_config(given).draft.empty());
  ASSERT_EQ(load_serve_config(given).warnings.size(), 2U);
  EXPECT_NE(load_serve_config(given).warnings[0].find("model.draft = \"b\" of " + file.string()), std::string::npos);
  EXPECT_NE(load_serve_config(given).warnings[1].find("--chat-template"), std::string::npos);
  given.draft = "d";
  EXPECT_TRUE(load_serve_config(given).chat_template.empty());
  EXPECT_EQ(load_serve_config(given).warnings.size(), 1U);
  given.chat_template = "u";
  EXPECT_TRUE(load_serve_config(given).warnings.empty());
  EXPECT_EQ(load_serve_config(given).draft, "d");
  EXPECT_EQ(load_serve_config(given).chat_template, "u");
  std::filesystem::remove(file);
}

// serve with 1,000 threads did not come up; neither did a learner with as many.
TEST(ServeConfig, MoreThreadsThanMakeSenseAreRefusedByName) {
  const auto refused = [](const ServeOverrides& given) {
    try {
      load_serve_config(given);
    } catch (const Error& error) {
      return error.param();
    }
    return std::string("accepted");
  };
  ServeOverrides given;
  given.target = "T";
  given.threads = 1024;
  const bool is_large = usable_cores() >= 256;  // then so many make sense
  EXPECT_EQ(refused(given), is_large ? "accepted" : "--threads");
  given.threads.reset();
  const auto file = std::filesystem::temp_directory_path() / ("slip-threads-" + std::to_string(::getpid()) + ".toml");
  given.config = file.string();
  for (const auto& [toml, key] :
       {std::pair("[model]\nthreads = 1024\n", "model.threads"), {"[learning]\ncores = 1024\n", "learning.cores"}}) {
    replace_file(file, toml, "test");
    EXPECT_EQ(refused(given), is_large ? "accepted" : key);
  }
  std::filesystem::remove(file);
}

TEST(ServeConfig, NoTargetSaysWhatToDo) {
  try {
    load_serve_config({});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.hint().find("--target"), std::string::npos);
  }
}

TEST(Topics, FileHoldsTheBuiltInOnes) {
  const auto file = kSource / "configs/topics.toml";
  const auto topics = parse_topics(read_file(file, 1 << 20), file.string());
  const auto built_in = built_in_topics();
  ASSERT_EQ(topics.size(), built_in.size());
  for (std::size_t i = 0; i < topics.size(); ++i) {
    EXPECT_EQ(topics[i].name, built_in[i].name);
    EXPECT_EQ(topics[i].aliases, built_in[i].aliases);
    EXPECT_EQ(topics[i].examples, built_in[i].examples);
    EXPECT_GE(topics[i].examples.size(), 12U) << topics[i].name;
  }
  const TopicTable table(topics);
  EXPECT_EQ(table[table.find("python").value()].name, "code");
  EXPECT_EQ(table[table.find("lang-fr").value()].name, "lang");
  EXPECT_FALSE(table.find("cooking"));
}

TEST(Topics, BadOnesAreRefused) {
  for (const char* toml : {"[[topic]]\nname = \"../x\"", "[[topic]]\nname = \"a\"\n[[topic]]\nname = \"a\"",
                           "[[topic]]\nnam = \"a\"", "topic = 5", "[[topic]]\nname = \"a\"\nexamples = [1]",
                           "[[topic]]\nname = \"a\"\nexamples = [\"\"]", "[[topic]]\nname = \"a\\u0000\""}) {
    EXPECT_THROW(parse_topics(toml, "topics.toml"), Error) << toml;
  }
}

// The way of a start and of a reload alike: a fault there is refused and everything stays as it was.
TEST(Topics, TheBaseDraftsNameAndInvalidOnesAreRefusedByKeyAndLine) {
  for (const std::string name : {"base", "a b", ""}) {
    try {
      parse_topics("[[topic]]\nname = \"sql\"\n[[topic]]\naliases = [\"b\"]\nname = \"" + name + "\"\n", "topics.toml");
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(error.message().find("topics.toml:5: topic.name"), std::string::npos) << error.message();
      EXPECT_EQ(error.param(), "topic.name");
    }
  }
}

// Bug: --check-config accepted it, and the service did not start, with an error that named no key.
TEST(ServeConfig, ReplayKeepsRecordsForADayAtLeast) {
  try {
    parse_serve_config("[replay]\nttl_days = 0\n", "my.toml", defaults());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.param(), "replay.ttl_days");
  }
}

}  // namespace
}  // namespace slip::cli
