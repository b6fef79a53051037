// SPDX-License-Identifier: Apache-2.0
// What the examples of configs/topics.toml bring by themselves, on prompts that are not among them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/config/serve_config.h"

namespace slip::cli {
namespace {

struct Asked {
  const char* topic;
  const char* prompt;
};

const std::vector<Asked> kAsked = {
    {"sql",
     "Tables: pet(id, kind, owner_id); owner(id, name).\nHow many owners have more than two pets? Write the SQL."},
    {"sql",
     "List the names of all cities with more than one million inhabitants, ordered by population descending, from "
     "table city."},
    {"sql", "SELECT title FROM film WHERE year = 1999 -- also show the name of the director (table director)"},
    {"sql",
     "Question: Find the average price of the products of each supplier.\nproduct(id, price, supplier_id), "
     "supplier(id, name)"},
    {"math", "A farmer has 7 rows of 15 trees. He cuts down a fifth of them. How many trees are left?"},
    {"math", "Jane saves $12 a week. Her bike costs $180. How many weeks does she have to save for it?"},
    {"math", "If a car uses 6 liters per 100 km, how many liters does it use for a trip of 350 km?"},
    {"math", "Tom has twice as many cards as Ann. Together they have 54. How many cards does Tom have?"},
    {"code", "Write a Python function that counts the vowels in a string."},
    {"code", "def flatten(nested):\n    \"\"\"Return one flat list of all items.\"\"\"\n"},
    {"code", "python sort a list of tuples by the second element"},
    {"code", "Why does this C++ code crash? int* p = nullptr; return *p;"},
    {"lang",
     "Continue this text:\nThe castle was built in the thirteenth century on a hill above the river, and for many "
     "years it was"},
    {"lang",
     "Die Brücke wurde im achtzehnten Jahrhundert gebaut und verbindet seitdem die beiden Teile der Stadt. Während des "
     "Krieges"},
    {"lang", "La ville est connue pour son université, fondée au Moyen Âge, et pour les nombreux musées qui"},
    {"lang", "Университет был основан в восемнадцатом веке и быстро стал"},
    {"lang", "这座大学成立于十八世纪，很快就成为"},
    {"lang", "تأسست الجامعة في القرن الثامن عشر وسرعان ما أصبحت"},
};

// Nothing that a topic stands for; "unknown" is right.
const std::vector<const char*> kChat = {
    "Good morning! How are you today?",
    "What is a good name for a black cat?",
    "I had an argument with my best friend. How do I apologise?",
    "Which vegetables grow well on a small balcony?",
    "Suggest three novels similar to Dracula.",
    "How do I get a coffee stain out of a white shirt?",
    "Write a haiku about the sea at night.",
    "My dog does not want to eat. Should I worry?",
    "Make a packing list for a week of camping with kids.",
    "What should I say in a toast at a wedding?",
};

Router built_in() {
  const TopicTable topics(built_in_topics());
  return {topics, RouterOptions{}, seeded_classifier(topics)};
}

TEST(BuiltInTopics, ExamplesAloneFindTheTopicOfMostPrompts) {
  const Router router = built_in();
  int right = 0;
  for (const Asked& asked : kAsked) {
    const std::string found = (*router.topics())[router.route(std::nullopt, asked.prompt).topic].name;
    EXPECT_TRUE(found == asked.topic || found == "unknown") << asked.prompt << "\nwas taken for " << found;
    right += found == asked.topic ? 1 : 0;
  }
  EXPECT_GE(right, 14) << "of " << kAsked.size();
}

TEST(BuiltInTopics, ChatIsMostlyUnknown) {
  const Router router = built_in();
  int unknown = 0;
  for (const char* prompt : kChat) unknown += router.route(std::nullopt, prompt).topic == TopicId{0} ? 1 : 0;
  EXPECT_GE(unknown, 9);
}

}  // namespace
}  // namespace slip::cli
