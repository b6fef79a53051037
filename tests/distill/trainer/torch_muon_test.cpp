// SPDX-License-Identifier: Apache-2.0
#include "distill/trainer/torch_muon.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "distill/trainer/trainer_state_file.h"
#include "tests/distill/trainer/trainer_fixture.h"

namespace slip {
namespace {

using nlohmann::json;
using testing::make_batch;
using testing::small_config;

at::Tensor matrix_of(const json& values, const json& shape) {
  const auto floats = values.get<std::vector<float>>();
  return at::tensor(floats).view({shape["rows"].get<std::int64_t>(), shape["columns"].get<std::int64_t>()}).clone();
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

// The largest difference from tests/goldens/muon.json (float64, by tools/goldens_muon.py) over all cases and steps,
// when the gradient's last element is multiplied by `planted_factor`.
double worst_error(double planted_factor) {
  const json goldens = json::parse(std::ifstream(std::string(SLIPSTREAM_SOURCE_DIR) + "/tests/goldens/muon.json"));
  MuonRates rates;
  rates.learning_rate = goldens["learning_rate"];
  rates.keep = goldens["keep"];
  double worst = 0;
  for (const json& golden : goldens["cases"]) {
    at::Tensor weight = matrix_of(golden["weight"], golden).requires_grad_(true);
    TorchMuon muon({weight});
    for (std::size_t step = 0; step < golden["gradients"].size(); ++step) {
      at::Tensor gradient = matrix_of(golden["gradients"][step], golden);
      gradient[-1][-1] *= planted_factor;
      weight.mutable_grad() = gradient;
      muon.update(rates);
      worst = std::max(worst, largest_difference(weight.detach(), matrix_of(golden["weights"][step], golden)));
    }
    worst = std::max(worst, largest_difference(muon.momenta()[0], matrix_of(golden["momentum"], golden)));
  }
  return worst;
}

TEST(TorchMuon, StepsAreThoseOfTheReference) {
  EXPECT_LT(worst_error(1.0), 2e-6);
}

// All singular values of an update are near 1 in bfloat16 as well, and it is the float32 update but for rounding.
TEST(TorchMuon, RoundedIteratesGiveTheSameUpdate) {
  at::Tensor exact = at::zeros({48, 20}).requires_grad_(true), rounded = at::zeros({48, 20}).requires_grad_(true);
  TorchMuon a({exact}), b({rounded}, at::kBFloat16);
  const at::Tensor gradient = at::arange(48 * 20, at::kFloat).square().mul(0.37).sin().view({48, 20});
  exact.mutable_grad() = gradient;
  rounded.mutable_grad() = gradient.clone();
  a.update({.learning_rate = 1});
  b.update({.learning_rate = 1});
  EXPECT_LT(largest_difference(exact.detach(), rounded.detach()), 0.05);
  EXPECT_GT(largest_difference(exact.detach(), rounded.detach()), 0);
}

TEST(TorchMuon, NegativeAGradientOffInOneElementIsCaught) {
  EXPECT_GT(worst_error(1.05), 2e-5);
}

TEST(TorchMuon, ClippingScalesWhatEntersTheMomentum) {
  at::Tensor plain = at::zeros({3, 3}).requires_grad_(true), scaled = at::zeros({3, 3}).requires_grad_(true);
  TorchMuon a({plain}), b({scaled});
  plain.mutable_grad() = at::eye(3);
  scaled.mutable_grad() = at::eye(3) * 4;
  a.update({.learning_rate = 0.1});
  b.update({.learning_rate = 0.1, .gradient_scale = 0.25});
  EXPECT_EQ(largest_difference(a.momenta()[0], b.momenta()[0]), 0);
  EXPECT_EQ(largest_difference(plain.detach(), scaled.detach()), 0);
}

TEST(TorchMuon, AGradientOfZerosChangesNothing) {
  at::Tensor weight = at::ones({4, 2}).requires_grad_(true);
  TorchMuon muon({weight});
  weight.mutable_grad() = at::zeros({4, 2});
  muon.update({.learning_rate = 0.1});
  EXPECT_EQ(largest_difference(weight.detach(), at::ones({4, 2})), 0);
}

// Matrices of one shape, or of one shape and its transpose, are updated together.
TEST(TorchMuon, EachMatrixIsUpdatedAsIfItWereAlone) {
  const std::pair<std::int64_t, std::int64_t> shapes[] = {{6, 6}, {4, 9}, {9, 4}, {6, 6}, {4, 9}};
  std::vector<at::Tensor> together, alone;
  for (const auto& [rows, columns] : shapes) {
    const auto seed = static_cast<double>(together.size() + 1);
    const at::Tensor gradient = at::arange(rows * columns, at::kFloat).mul(seed * 0.7).sin().view({rows, columns});
    for (auto* matrices : {&together, &alone}) {
      matrices->push_back(at::ones({rows, columns}).requires_grad_(true));
      matrices->back().mutable_grad() = gradient.clone();
    }
  }
  together[3].mutable_grad().reset();  // one of a shape without a gradient
  TorchMuon all(together);
  all.update({.learning_rate = 0.1});
  for (std::size_t m = 0; m < together.size(); ++m) {
    const at::Tensor before = alone[m].detach().clone();
    TorchMuon one({alone[m]});
    one.update({.learning_rate = 0.1});
    const at::Tensor& expected = m == 3 ? before : alone[m];
    EXPECT_LT(largest_difference(together[m].detach(), expected.detach()), 1e-6) << m;
    EXPECT_GT(largest_difference(alone[m].detach(), before), 0.01) << m;
  }
}

class TorchOptimizerTest : public testing::TrainerTest {};

TEST_F(TorchOptimizerTest, MuonIsForTheLayersMatricesOnly) {
  const ModelConfig config = small_config();
  TrainerOptions options;
  options.max_grad_norm = 0;
  DraftTrainer adamw(config, 3, options);
  adamw.step(make_batch(2));
  adamw.save(folder_ / "adamw");
  options.optimizer = OptimizerKind::kMuon;
  DraftTrainer muon(config, 3, options);
  muon.step(make_batch(2));
  muon.save(folder_ / "muon");
  const auto a = read_trainer_state(folder_ / "adamw", config).floats;
  const auto m = read_trainer_state(folder_ / "muon", config, OptimizerKind::kMuon).floats;
  const std::size_t n = static_cast<std::size_t>(config.parameters());
  const std::size_t embedding = 97 * 32, norm = 32, q = 32 * 32;
  for (std::size_t i = 0; i < embedding + norm; ++i) ASSERT_EQ(a[i], m[i]) << "AdamW's parameter " << i;
  double same = 0;
  for (std::size_t i = embedding + norm; i < embedding + norm + q; ++i) same += a[i] == m[i] ? 1 : 0;
  EXPECT_LT(same, 0.01 * static_cast<double>(q)) << "of q_proj";
  EXPECT_EQ(a.size(), TrainerState::kParts * n);
  EXPECT_EQ(m.size(), TrainerState::n_floats(config, OptimizerKind::kMuon));
}

TEST_F(TorchOptimizerTest, MuonLearnsABatchByHeart) {
  TrainerOptions options;
  options.optimizer = OptimizerKind::kMuon;
  options.learning_rate = 1e-2;
  DraftTrainer trainer(small_config(), 1, options);
  const auto batch = make_batch(2);
  for (int i = 0; i < 100; ++i) trainer.step(batch);
  EXPECT_LT(trainer.evaluate(batch).loss, 0.05);
}

}  // namespace
}  // namespace slip
