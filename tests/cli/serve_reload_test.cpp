// SPDX-License-Identifier: Apache-2.0
// What SIGHUP and SIGUSR1 do to a service that runs.
#include <sys/stat.h>

#include "tests/cli/serve_fixture.h"
#include "tests/server/tls_client.h"

namespace slip {
namespace {

using nlohmann::json;

class ServeReloadTest : public ServeTest {};

TEST_F(ServeReloadTest, SighupTakesWhatCanChangeAndRefusesAFaultyFile) {
  const auto config = folder_ / "c.toml", log = folder_ / "service.log";
  const std::string log_section = "[log]\nfile = \"" + log.string() + "\"\n";
  const auto write = [&](const std::string& text) { std::ofstream(config) << text; };
  const auto said = [&](const std::string& what) {
    for (int i = 0; i < 1000; ++i) {
      if (text_of(log).find(what) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  };
  write(log_section + "[data]\nmin_free_bytes = 1000000000000000\n");  // more than there is: degraded from the start
  std::filesystem::create_symlink(kTarget, folder_ / "target");
  auto arguments = usual();
  arguments.at(1) = (folder_ / "target").string();
  arguments.insert(arguments.end(), {"-c", config.string()});
  Program program(folder_, arguments);
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  EXPECT_EQ(ask(port, chat_bytes("What is 12 + 30?", 8)).status, 200) << "serving goes on";
  EXPECT_NE(get(port, "/metrics").body.find("slipstream:degraded{reason=\"disk_low\"} 1"), std::string::npos);
  EXPECT_TRUE(said("disk: only")) << text_of(log);
  write(log_section + "[data]\nmin_free_bytes = true\n");
  program.signal(SIGHUP);
  EXPECT_TRUE(said("reload refused")) << text_of(log);
  EXPECT_NE(text_of(log).find("c.toml:4: data.min_free_bytes"), std::string::npos) << text_of(log);
  EXPECT_NE(get(port, "/metrics").body.find("slipstream:degraded{reason=\"disk_low\"} 1"), std::string::npos);
  // The service ended when the target's folder had become a loop of links.
  std::filesystem::rename(folder_ / "target", folder_ / "kept");
  std::filesystem::create_symlink("target", folder_ / "target");
  write(log_section + "[data]\nmin_free_bytes = 1000000000000000\n");
  program.signal(SIGHUP);
  EXPECT_TRUE(said("Too many levels of symbolic links")) << text_of(log);
  std::filesystem::rename(folder_ / "kept", folder_ / "target");
  write(log_section +
        "format = \"json\"\n[data]\nmin_free_bytes = 1\n[server]\nmax_connections = 7\n[learning]\n"
        "enabled = false\n");
  program.signal(SIGHUP);
  EXPECT_TRUE(said("reloaded; changed: data.min_free_bytes, learning.enabled, log.format")) << text_of(log);
  EXPECT_TRUE(said("needs a restart to change: server.max_connections\"}")) << text_of(log);
  const std::string roomy = "slipstream:degraded{reason=\"disk_low\"} 0";  // a look that had begun may still say 1
  EXPECT_TRUE(testing::eventually([&] { return get(port, "/metrics").body.find(roomy) != std::string::npos; }));
  EXPECT_NE(get(port, "/metrics").body.find("slipstream:learning 0"), std::string::npos);
  EXPECT_TRUE(said("\"message\":\"disk: ")) << text_of(log);
  std::filesystem::rename(log, folder_ / "service.log.1");
  std::filesystem::create_directory(log);
  program.signal(SIGUSR1);
  EXPECT_TRUE(testing::eventually([&] { return program.err().find("cannot reopen the log") != std::string::npos; }));
  std::filesystem::remove(log);
  program.signal(SIGUSR1);
  for (int i = 0; i < 1000 && !std::filesystem::exists(log); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(program.stop(), 0);
  EXPECT_TRUE(said("\"message\":\"stopped\"")) << text_of(log);
  EXPECT_EQ(count("SELECT COUNT(*) FROM requests"), 1) << "the row waited for room";
}

// Keys, certificate and examples are taken together or not at all.
TEST_F(ServeReloadTest, SighupTakesKeysCertificateAndExamplesOrNothing) {
  const auto write = [&](const std::string& name, const std::string& text) {
    const auto file = folder_ / name;
    std::ofstream(file) << text;
    ::chmod(file.c_str(), 0600);
    return file.string();
  };
  const auto topics = [&](const std::string& of_math) {
    return write("topics.toml", "[[topic]]\nname = \"math\"\nexamples = [\"" + of_math +
                                    "\"]\n[[topic]]\nname = \"sql\"\nexamples = [\"select from table\"]\n");
  };
  const SelfSigned old(folder_);
  const auto trusted = folder_ / "trusted.crt";  // what clients keep while the server's files change
  std::filesystem::copy_file(old.certificate, trusted);
  const std::string without_keys = "[topics]\nfile = \"" + topics("add numbers") +
                                   "\"\n[speculation]\nk = 3\n[server]\ntls_certificate = \"" +
                                   old.certificate.string() + "\"\ntls_key = \"" + old.key.string() + "\"\n";
  const std::string config =
      write("c.toml", without_keys + "api_keys_file = \"" + write("keys", "first-of-two-keys\n") + "\"\n");
  Program program(folder_, {"-c", config, "--target", kTarget, "--draft", kDraft, "--port", "0", "--data-dir", data()});
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  // The status, and for a chat the topic, as one connection that trusts `certificate` gets them; "" for no connection.
  const auto outcome = [&](const std::filesystem::path& certificate, const std::string& key) -> std::string {
    TlsClient client(port, certificate);
    if (!client.open()) return "";
    std::string bytes = chat_bytes("zarquon wibble", 2);
    const std::string label = R"("metadata":{"topic":"math"})", none = R"("metadata":{"of":"none"})";
    bytes.replace(bytes.find(label), label.size(), none);
    bytes.insert(bytes.find("Host:"), "Connection: close\r\nAuthorization: Bearer " + key + "\r\n");
    bytes.replace(bytes.find("Content-Length: "), bytes.find("\r\n\r\n") - bytes.find("Content-Length: "),
                  "Content-Length: " + std::to_string(bytes.size() - bytes.find("\r\n\r\n") - 4));
    client.send(bytes);
    EXPECT_TRUE(client.ended_properly());
    const auto body = json::parse(client.received.substr(client.received.find("\r\n\r\n") + 4));
    const std::string status = client.received.substr(9, 3);
    if (status != "200") return status;
    return status + " " + body["metrics"]["speculative_decoding"]["topic"].get<std::string>();
  };
  const auto reload = [&](const std::string& expected) {
    program.signal(SIGHUP);
    for (int i = 0; i < 1000 && program.err().find(expected) == std::string::npos; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_NE(program.err().find(expected), std::string::npos) << program.err();
  };
  EXPECT_EQ(outcome(trusted, "first-of-two-keys"), "200 unknown");
  EXPECT_EQ(outcome(trusted, "other-of-two-keys"), "401");

  std::filesystem::create_directories(folder_ / "fresh");
  const SelfSigned fresh(folder_ / "fresh");
  write("keys", "other-of-two-keys\n");
  topics("zarquon wibble");
  const auto still_as_it_was = [&] {
    EXPECT_EQ(outcome(trusted, "first-of-two-keys"), "200 unknown");
    EXPECT_EQ(outcome(trusted, "other-of-two-keys"), "401");
  };
  std::filesystem::copy_file(fresh.certificate, old.certificate, std::filesystem::copy_options::overwrite_existing);
  reload("server.key is no private key in PEM form, or not the certificate's");
  SelfSigned::encrypted(old.key, /*traditional=*/false);
  reload("server.key is encrypted");
  still_as_it_was();
  std::filesystem::copy_file(fresh.key, old.key, std::filesystem::copy_options::overwrite_existing);
  write("keys", "other-of-two-keys requests_per_minute=many\n");
  reload("keys:1: requests_per_minute must be a whole number");
  still_as_it_was();
  write("keys", "other-of-two-keys\n");
  topics("zarquon wibble\", \"");
  reload("topics.toml: topic \"math\" has too many examples, an empty one");
  still_as_it_was();

  topics("zarquon wibble");
  reload("reloaded; changed: topic, the TLS certificate, the API keys");
  EXPECT_EQ(outcome(fresh.certificate, "other-of-two-keys"), "200 math");
  EXPECT_EQ(outcome(fresh.certificate, "first-of-two-keys"), "401");
  EXPECT_EQ(outcome(folder_ / "none", "other-of-two-keys"), "");

  const std::string opened = "no API key is left";
  EXPECT_EQ(program.err().find(opened), std::string::npos);
  write("c.toml", without_keys);
  reload(opened);
  EXPECT_EQ(outcome(fresh.certificate, "no-key-of-this-service"), "200 math");
  EXPECT_EQ(program.stop(), 0) << program.log();
}

// Bug: the keys were checked against the tiers that run, so the reload was refused for a tier that slo.tiers had, and a
// leaked key could not be removed without a restart.
TEST_F(ServeReloadTest, ANewTierNeedsARestartAndAKeyForItDoesNotStopTheReload) {
  const auto config = folder_ / "c.toml", keys = folder_ / "keys";
  const auto write = [&](const std::string& more_tiers, const std::string& lines) {
    std::ofstream(config) << "[server]\napi_keys_file = \"" << keys.string()
                          << "\"\n[slo]\ntiers = [\"soon: e2e=3600000\"" << more_tiers << "]\n";
    std::ofstream(keys) << lines;
    ::chmod(keys.c_str(), 0600);
  };
  const auto status = [&](std::uint16_t port, const std::string& key, const std::string& tier) {
    std::string bytes = chat_bytes("What is 2 + 3?", 2, R"(,"service_tier":")" + tier + R"(")");
    bytes.insert(bytes.find("Host:"), "Authorization: Bearer " + key + "\r\n");
    return ask(port, bytes).status;
  };
  write("", "a-key-that-leaked-out slo_tiers=soon\na-key-that-is-kept slo_tiers=soon\n");
  auto arguments = usual();
  arguments.insert(arguments.end(), {"-c", config.string()});
  Program program(folder_, arguments);
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  EXPECT_EQ(status(port, "a-key-that-leaked-out", "soon"), 200);
  const auto reloaded = [&](const std::string& expected) {
    program.signal(SIGHUP);
    return testing::eventually([&] { return program.err().find(expected) != std::string::npos; });
  };
  write(", \"batch: e2e=1800000\"", "a-key-that-is-kept slo_tiers=soon,batch\n");
  EXPECT_TRUE(reloaded("reloaded; changed: the API keys")) << program.err();
  EXPECT_TRUE(testing::eventually([&] {
    return program.err().find("restart to change: slo.tiers") != std::string::npos;
  })) << program.err();
  EXPECT_EQ(status(port, "a-key-that-leaked-out", "soon"), 401);
  EXPECT_EQ(status(port, "a-key-that-is-kept", "soon"), 200);
  EXPECT_EQ(status(port, "a-key-that-is-kept", "batch"), 400) << "it is no tier of what runs";
  write(", \"batch: e2e=1800000\"", "a-key-that-is-kept slo_tiers=soon,bath\n");
  EXPECT_TRUE(reloaded("may ask for the tier 'bath', which slo.tiers has not")) << program.err();
  EXPECT_EQ(program.stop(), 0) << program.log();
}

}  // namespace
}  // namespace slip
