# SPDX-License-Identifier: Apache-2.0
"""The demo's own prompts: templates filled by a fixed-seed generator, in the forms the embedded target knows."""
import random

SCHEMAS = {
    "library": {"book": ["Book_ID", "Title", "Author", "Year", "Pages"], "loan": ["Loan_ID", "Book_ID", "Member_ID", "Due_Date"],
                "member": ["Member_ID", "Name", "City", "Age"]},
    "bakery": {"cake": ["Cake_ID", "Name", "Flavor", "Price"], "customer": ["Customer_ID", "Name", "Age", "City"],
               "sale": ["Sale_ID", "Cake_ID", "Customer_ID", "Quantity"]},
    "race_club": {"driver": ["Driver_ID", "Name", "Country", "Age"], "race": ["Race_ID", "Track", "Year", "Distance"],
                  "entry": ["Entry_ID", "Driver_ID", "Race_ID", "Position"]},
    "city_school": {"teacher": ["Teacher_ID", "Name", "Age", "Hometown"], "course": ["Course_ID", "Title", "Credits"],
                    "lesson": ["Lesson_ID", "Course_ID", "Teacher_ID", "Room"]},
}
SQL_QUESTIONS = [
    "How many {table}s are there?", "List the {column} of all {table}s.", "What is the average {column} of {table}s?",
    "List the {column} of {table}s in ascending order of {other}.", "What is the maximum {column} of all {table}s?",
    "Show the {column} and {other} of each {table}.", "How many different {column} values do the {table}s have?",
    "Show the {column} of the {table} with the largest {other}.",
    "For each {column}, how many {table}s are there?", "Show all {column}s that at least two {table}s share.",
]
PEOPLE = ["Mira", "Jonas", "Alba", "Viktor", "Noor", "Felix", "Ines", "Tomas", "Greta", "Hugo", "Lena", "Omar"]
THINGS = ["apples", "pencils", "marbles", "stickers", "books", "cookies", "eggs", "tickets", "shells", "cards"]
MATH_STORIES = [
    "{a} has {n} {things}. {b} gives {a} {m} more {things}. How many {things} does {a} have now?",
    "{a} buys {n} boxes of {things}. Each box holds {m} {things} and costs ${k}. How much does {a} spend in total?",
    "{a} has {n} {things} and {b} has twice as many. How many {things} do they have together?",
    "{a} reads {n} pages a day for {m} days. How many pages does {a} read in total?",
    "A baker makes {n} {things} each hour for {m} hours and sells {k} of them. How many {things} are left?",
    "{a} earns ${n} an hour and works {m} hours a day. How much does {a} earn in {k} days?",
    "{a} shares {n}0 {things} equally among {k} friends. How many {things} does each friend get?",
    "{a} had {n}0 {things}, lost {m} and found {k}. How many {things} does {a} have now?",
]
CODE_VERBS = [("get", "Return the {noun} of the given {owner}."), ("set", "Set the {noun} of the given {owner}."),
              ("load", "Load the {noun} from a file."), ("save", "Save the {noun} to a file."),
              ("parse", "Parse a {noun} from a string."), ("find", "Find the {noun} by its name."),
              ("delete", "Delete the {noun} from the {owner}."), ("update", "Update the {noun} of the {owner}."),
              ("is_valid", "Return True if the {noun} is valid."), ("count", "Count the {noun}s in the {owner}.")]
CODE_NOUNS = ["config", "header", "user", "path", "index", "table", "column", "token", "image", "message", "node", "key"]
CODE_OWNERS = ["session", "request", "database", "project", "document", "graph", "window", "client"]
GERMAN = [
    "Die Stadt liegt am Ufer des Flusses und wurde im {n}. Jahrhundert gegründet. Heute leben dort",
    "Der {adj} Teil des Landes ist für seine Wälder und Berge bekannt. Im Winter",
    "Die Universität wurde im Jahr 1{n}0 gegründet und gehört zu den {adj}sten des Landes. Die Studenten",
    "Im {n}. Jahrhundert entstand in dieser Region eine {adj}e Industrie. Die Arbeiter",
]
GERMAN_ADJECTIVES = ["groß", "alt", "klein", "nördlich", "südlich", "wichtig"]
SPANISH = [
    "La ciudad se encuentra a orillas del río y fue fundada en el siglo {n}. Hoy en día",
    "La parte {adj} del país es conocida por sus bosques y montañas. En invierno,",
    "La universidad fue fundada en el año 1{n}0 y es una de las más {adj}s del país. Los estudiantes",
    "En el siglo {n}, la región desarrolló una industria {adj}. Los trabajadores",
]
SPANISH_ADJECTIVES = ["grande", "oriental", "importante", "meridional", "occidental", "notable"]


def sql(draw):
    name = draw.choice(sorted(SCHEMAS))
    tables = SCHEMAS[name]
    table = draw.choice(sorted(tables))
    column, other = draw.sample(tables[table][1:], 2)
    schema = "\n".join(f"{t}({', '.join([c[0] + '*'] + c[1:])})" for t, c in tables.items())
    question = draw.choice(SQL_QUESTIONS).format(table=table, column=column.lower().replace("_", " "), other=other.lower().replace("_", " "))
    return f"Database: {name}\nTables (* = primary key):\n{schema}\n\nQuestion: {question}\nWrite the SQL query."


def math(draw):
    a, b = draw.sample(PEOPLE, 2)
    return draw.choice(MATH_STORIES).format(a=a, b=b, things=draw.choice(THINGS), n=draw.randint(2, 24), m=draw.randint(2, 12),
                                            k=draw.randint(2, 9))


def code(draw):
    verb, sentence = draw.choice(CODE_VERBS)
    noun, owner = draw.choice(CODE_NOUNS), draw.choice(CODE_OWNERS)
    argument = draw.choice([owner, "name", "path", "value", f"{owner}_id"])
    return (f"Complete the Python function.\n```python\ndef {verb}_{noun}(self, {argument}):\n"
            f"    \"\"\"{sentence.format(noun=noun, owner=owner)}\"\"\"\n```")


def german(draw):
    text = draw.choice(GERMAN).format(n=draw.randint(11, 19), adj=draw.choice(GERMAN_ADJECTIVES))
    return f"Continue this paragraph:\n{text}"


def spanish(draw):
    text = draw.choice(SPANISH).format(n=draw.randint(11, 19), adj=draw.choice(SPANISH_ADJECTIVES))
    return f"Continue this paragraph:\n{text}"


# The order in which the demo visits them; sql comes back at the end to show that nothing was forgotten.
VISITS = [("sql", "sql", sql), ("math", "math", math), ("code", "code", code), ("lang", "lang-de", german),
          ("lang", "lang-es", spanish), ("sql", "sql", sql)]


def stream(per_topic, seed=7):
    """(topic, label, prompt) in visiting order: `per_topic` prompts a topic; the visits of one topic share them."""
    draw = random.Random(seed)
    visits_of = {topic: sum(1 for t, _, _ in VISITS if t == topic) for topic, _, _ in VISITS}
    prompts = []
    for topic, label, template in VISITS:
        share = -(-per_topic // visits_of[topic])
        prompts += [(topic, label, template(draw)) for _ in range(share)]
    return prompts
