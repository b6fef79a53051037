// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace slip {

enum class SpecialTokens : std::uint8_t {
  kParse,   // "<|end|>" in the text becomes the special token (templates, `generate` prompts used as they are)
  kAsText,  // user content: never parsed for special tokens (docs/security.md, S7)
};

// A part of a text. The text is tokenized as a whole; pieces only decide where special tokens are parsed.
struct TextPiece {
  std::string text;
  SpecialTokens specials = SpecialTokens::kAsText;
};

// A tokenizer, read from a Hugging Face tokenizer.json (BPE, byte-level or with byte fallback) or a SentencePiece
// tokenizer.model; the former if a folder has both. Immutable after load; encode and decode from any thread.
// Errors: Error{kNotFound | kInvalidArgument | kTooLarge | kUnsupported} naming the file and key. Ids outside the
// vocabulary (a model may have spare rows) have no bytes and no content.
class Tokenizer {
 public:
  static std::shared_ptr<const Tokenizer> load(const std::filesystem::path& folder);
  ~Tokenizer();

  std::vector<std::int32_t> encode(std::string_view text, SpecialTokens specials) const;
  std::vector<std::int32_t> encode(const std::vector<TextPiece>& pieces) const;  // encodes the concatenation
  // Encodes a raw prompt: parses special tokens in it and adds the post-processor's special tokens.
  std::vector<std::int32_t> encode_prompt(std::string_view text) const;
  // Puts the post-processor's special tokens around the `ids` of one text.
  std::vector<std::int32_t> with_special_tokens(std::vector<std::int32_t> ids) const;
  // The bytes of one token in the middle of a text; empty for special tokens. They may be part of a UTF-8 character.
  std::string_view token_bytes(std::int32_t id) const;
  bool is_special(std::int32_t id) const;
  std::string decode(const std::vector<std::int32_t>& ids) const;  // omits special tokens, replaces invalid UTF-8
  std::int32_t vocab_size() const;
  std::int32_t token_id(std::string_view content) const;  // an exact vocabulary or added-token entry; -1 if none
  std::string_view token_content(std::int32_t id) const;  // the entry as the vocabulary spells it
  // The first id whose entries differ, −1 if none. A draft and its target must agree.
  static std::int32_t first_difference(const Tokenizer& a, const Tokenizer& b);

 private:
  friend class StreamDecoder;
  friend class SentencePieceEncoder;
  struct Tables;
  static void read_json(const std::filesystem::path& path, Tables& tables);
  explicit Tokenizer(std::unique_ptr<Tables> tables);
  std::unique_ptr<Tables> tables_;
};

// Turns a stream of tokens into text that never contains part of a character: bytes of an unfinished UTF-8 sequence are
// held back. The concatenated pieces equal Tokenizer::decode() of the whole list.
class StreamDecoder {
 public:
  enum class Start : std::uint8_t {
    kText,    // the first token begins a text: a space that only marks a word's start is dropped
    kMiddle,  // the first token continues a text
  };
  enum class Stop : std::uint8_t {
    kText,    // the last token ends a text: what the decoder trims at a text's end is dropped
    kMiddle,  // a text continues after the last token
  };
  // The start mode of a completion of a raw prompt: in the middle of its text, unless the prompt is empty.
  static Start behind(const Tokenizer& tokenizer, const std::vector<std::int32_t>& prompt);
  explicit StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, Start start = Start::kText,
                         Stop stop = Stop::kText);
  std::string push(std::int32_t token);  // the text this token completed, possibly empty
  std::string finish();                  // the rest, with incomplete bytes replaced by U+FFFD

 private:
  // The state of trimming at the text's two ends.
  struct End {
    std::size_t to_drop = 0;  // still to drop at the start
    std::size_t to_trim = 0;  // dropped at the end, at most
    std::string held;         // held back: may turn out to be the text's end
  };
  std::string cut_ends(std::string text);

  std::shared_ptr<const Tokenizer> tokenizer_;
  bool is_first_;
  std::string pending_;
  std::vector<End> ends_;
};

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
  std::optional<std::string> name = std::nullopt;  // the speaker's name; most templates ignore it
};

// A model's chat template, rendered to token ids. Template text is parsed for special tokens, message content never is.
// No special tokens are added around the result. Immutable; any thread.
class ChatTemplate {
 public:
  // Reads the template from `file`, else from the folder's chat_template.jinja, else from its tokenizer_config.json;
  // the special tokens' names always come from the latter. Error{kUnsupported} naming file, construct and line for
  // Jinja beyond the supported subset; Error{kNotFound | kInvalidArgument | kTooLarge} naming the file.
  static ChatTemplate load(const std::filesystem::path& folder, const std::filesystem::path& file = {});
  // Error{kInvalidArgument}, with the template's line, if the template rejects or cannot render these messages;
  // Error{kTooLarge} for too many messages, too much work or too long a text.
  std::vector<std::int32_t> render(const Tokenizer& tokenizer, const std::vector<ChatMessage>& messages,
                                   bool add_generation_prompt) const;
  std::vector<TextPiece> render(const std::vector<ChatMessage>& messages, bool add_generation_prompt) const;
  ChatTemplate(const ChatTemplate&);
  ChatTemplate(ChatTemplate&&) noexcept;
  ~ChatTemplate();

 private:
  struct Program;
  explicit ChatTemplate(std::shared_ptr<const Program> program);
  std::shared_ptr<const Program> program_;
};

}  // namespace slip
