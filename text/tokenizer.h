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
  kAsText,  // user content: never becomes a special token (S7)
};

// A stretch of a text that is tokenised as a whole: pieces decide only where special tokens are looked for.
struct TextPiece {
  std::string text;
  SpecialTokens specials = SpecialTokens::kAsText;
};

// A Hugging Face tokenizer.json (BPE, byte-level or with byte fallback) or a SentencePiece tokenizer.model; the former
// where a folder has both. Immutable after load; encode and decode from any thread.
// Errors: Error{kNotFound | kInvalidArgument | kTooLarge | kUnsupported} naming the file and key. Ids outside the
// vocabulary (a model may have spare rows) have no bytes and no content.
class Tokenizer {
 public:
  static std::shared_ptr<const Tokenizer> load(const std::filesystem::path& folder);
  ~Tokenizer();

  std::vector<std::int32_t> encode(std::string_view text, SpecialTokens specials) const;
  std::vector<std::int32_t> encode(const std::vector<TextPiece>& pieces) const;  // of the pieces' concatenation
  // A prompt that stands by itself: special tokens in it are parsed, and it gets those around it that the file asks
  // for.
  std::vector<std::int32_t> encode_prompt(std::string_view text) const;
  // `ids` of one text between the special tokens that the file's post-processor puts around it.
  std::vector<std::int32_t> with_special_tokens(std::vector<std::int32_t> ids) const;
  // Bytes of one token as they stand inside a text; empty for special tokens. Not necessarily whole UTF-8 characters.
  std::string_view token_bytes(std::int32_t id) const;
  bool is_special(std::int32_t id) const;
  std::string decode(const std::vector<std::int32_t>& ids) const;  // specials left out, invalid UTF-8 replaced
  std::int32_t vocab_size() const;
  std::int32_t token_id(std::string_view content) const;  // an exact vocabulary or added-token entry; -1 if none
  std::string_view token_content(std::int32_t id) const;  // the entry's own spelling
  // The first id whose entry differs between the two, -1 if none: draft and target must agree.
  static std::int32_t first_difference(const Tokenizer& a, const Tokenizer& b);

 private:
  friend class StreamDecoder;
  friend class SentencePieceEncoder;
  struct Tables;
  static void read_json(const std::filesystem::path& path, Tables& tables);
  explicit Tokenizer(std::unique_ptr<Tables> tables);
  std::unique_ptr<Tables> tables_;
};

// Turns a growing list of tokens into text that never contains half a character: bytes of an unfinished UTF-8 sequence
// are held back. The pieces add up to what Tokenizer::decode() says of the whole list.
class StreamDecoder {
 public:
  enum class Start : std::uint8_t {
    kText,    // the first token begins a text: a space that only marks a word's beginning is left out
    kMiddle,  // it continues one
  };
  // How an answer begins that goes on where a raw prompt ends: in the middle of its text, if it has any.
  static Start behind(const Tokenizer& tokenizer, const std::vector<std::int32_t>& prompt);
  explicit StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, Start start = Start::kText);
  std::string push(std::int32_t token);  // the text this token completed, possibly empty
  std::string finish();                  // what is left, incomplete bytes replaced by U+FFFD

 private:
  // What a decoder cuts off the text's ends, so far.
  struct End {
    std::size_t to_drop = 0;  // at the start
    std::string held;         // might be the text's end
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
  std::optional<std::string> name = std::nullopt;  // of who speaks; most templates do not write it
};

// A model's chat template, as token ids: template text is parsed for special tokens, message content never is, and
// nothing is put around the whole. Immutable; any thread.
class ChatTemplate {
 public:
  // The template in `file`, else the folder's chat_template.jinja, else the one in its tokenizer_config.json, which
  // names the special tokens in any case. Error{kUnsupported} naming file, construct and line when it uses Jinja beyond
  // the supported subset; Error{kNotFound | kInvalidArgument | kTooLarge} naming the file.
  static ChatTemplate load(const std::filesystem::path& folder, const std::filesystem::path& file = {});
  // Error{kInvalidArgument} for what the template itself refuses or cannot do with these messages, naming its line;
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
