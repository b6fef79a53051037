# SPDX-License-Identifier: Apache-2.0
"""The demo's own prompts: templates filled by a fixed-seed generator, in the forms the embedded target knows.

Every prompt has content of its own (tables, columns, names, numbers, signatures), as those of real clients have: learning
counts near-copies of one text as one piece of evidence."""
import random

SCHEMAS = {
    "library": {
        "book": ["Title", "Author", "Year", "Pages", "Publisher", "Language", "Price", "Shelf"],
        "loan": ["Book_ID", "Member_ID", "Due_Date", "Start_Date", "Fine", "Status"],
        "member": ["Name", "City", "Age", "Email", "Phone", "Join_Year", "Level"]},
    "bakery": {
        "cake": ["Name", "Flavor", "Price", "Weight", "Calories", "Topping", "Size"],
        "customer": ["Name", "Age", "City", "Phone", "Country", "Points", "Gender"],
        "sale": ["Cake_ID", "Customer_ID", "Quantity", "Sale_Date", "Total", "Discount"]},
    "race_club": {
        "driver": ["Name", "Country", "Age", "Team", "Points", "Wins", "Height"],
        "race": ["Track", "Year", "Distance", "Laps", "Location", "Weather", "Prize"],
        "entry": ["Driver_ID", "Race_ID", "Position", "Time", "Speed", "Car_Number"]},
    "city_school": {
        "teacher": ["Name", "Age", "Hometown", "Salary", "Subject", "Start_Year", "Email"],
        "course": ["Title", "Credits", "Level", "Hours", "Language", "Fee"],
        "lesson": ["Course_ID", "Teacher_ID", "Room", "Day", "Grade", "Duration"]},
    "music_festival": {
        "artist": ["Name", "Country", "Age", "Genre", "Albums", "Followers", "Debut_Year"],
        "stage": ["Name", "Capacity", "Location", "Sponsor", "Built_Year"],
        "concert": ["Artist_ID", "Stage_ID", "Day", "Attendance", "Start_Time", "Ticket_Price"]},
    "hospital": {
        "doctor": ["Name", "Position", "Salary", "Age", "Specialty", "Hire_Year"],
        "patient": ["Name", "Age", "City", "Phone", "Insurance", "Weight", "Blood_Type"],
        "visit": ["Doctor_ID", "Patient_ID", "Visit_Date", "Cost", "Room", "Diagnosis"]},
    "airport": {
        "airline": ["Name", "Country", "Fleet_Size", "Founded", "Call_Sign", "Rating"],
        "plane": ["Model", "Airline_ID", "Seats", "Max_Speed", "Weight", "Year"],
        "flight": ["Plane_ID", "Origin", "Destination", "Distance", "Price", "Departure_Date"]},
    "shop": {
        "product": ["Name", "Category", "Price", "Color", "Stock", "Weight", "Brand"],
        "store": ["Name", "City", "Manager_Name", "Open_Year", "Staff", "Area"],
        "delivery": ["Product_ID", "Store_ID", "Quantity", "Delivery_Date", "Cost", "Status"]},
    "museum": {
        "painting": ["Title", "Painter", "Year", "Height", "Width", "Medium", "Value"],
        "gallery": ["Name", "Floor", "Area", "Open_Hour", "Theme", "Guards"],
        "exhibition": ["Painting_ID", "Gallery_ID", "Theme", "Start_Date", "Ticket_Price", "Visitors"]},
    "company": {
        "employee": ["Name", "Salary", "Age", "Job_Title", "City", "Hire_Date", "Bonus"],
        "department": ["Name", "Budget", "Location", "Head_Name", "Founded", "Staff"],
        "project": ["Department_ID", "Name", "Hours", "Cost", "Start_Year", "Client"]},
}
TEXT_COLUMNS = {"Title", "Author", "Publisher", "Language", "Shelf", "Status", "Name", "City", "Email", "Phone", "Level", "Flavor", "Topping",
                "Country", "Gender", "Team", "Track", "Location", "Weather", "Hometown", "Subject", "Room", "Day", "Genre", "Sponsor",
                "Position", "Specialty", "Insurance", "Blood_Type", "Diagnosis", "Call_Sign", "Model", "Origin", "Destination", "Category",
                "Color", "Brand", "Manager_Name", "Painter", "Medium", "Theme", "Job_Title", "Head_Name", "Client"}
VALUES = ["Paris", "Lisbon", "Oslo", "Kyoto", "Lima", "Boston", "Red", "Blue", "Green", "Rock", "Jazz", "History", "Chemistry", "French",
          "Spanish", "Open", "Closed", "Smith", "Garcia", "Chen", "Lemon", "Cherry", "Monday", "Friday", "Gold", "Silver"]
SQL_QUESTIONS = [  # {text} and {number} are columns of the one type each
    "How many {table}s are there?", "How many {table}s have a {number} above {n}?", "How many {table}s have {text} {value}?",
    "List the {text} of all {table}s.", "List the {text} of {table}s in ascending order of {number}.",
    "List the {text} and {number} of the {table}s, sorted by {number} in descending order.",
    "What is the average {number} of {table}s?", "What is the average {number} of {table}s whose {text} is {value}?",
    "What is the maximum and minimum {number} of all {table}s?", "What is the total {number} of {table}s with {text} {value}?",
    "Show the {text} of the {table} with the largest {number}.", "Show the {text} of the {n} {table}s with the smallest {number}.",
    "Show the {text} of {table}s whose {number} is between {n} and {m}.", "Show the {number} of each {table} whose {text} is not {value}.",
    "How many different {text} values do the {table}s have?", "For each {text}, how many {table}s are there?",
    "For each {text}, what is the average {number} of its {table}s?", "Show all {text} values that at least {n} {table}s share.",
    "What is the most common {text} among the {table}s?", "Which {text} has the highest total {number} of {table}s?",
    "Find the {text} of {table}s whose {number} is above the average.", "Find the {text} of {table}s whose {text} contains {value}.",
    "Find the distinct {text} of {table}s with {number} less than {m}.", "What are the {number} and {text} of {table}s, ordered by {text}?",
]
PEOPLE = ["Mira", "Jonas", "Alba", "Viktor", "Noor", "Felix", "Ines", "Tomas", "Greta", "Hugo", "Lena", "Omar", "Ruth", "Pablo", "Yuki", "Carl"]
THINGS = ["apples", "pencils", "marbles", "stickers", "books", "cookies", "eggs", "tickets", "shells", "cards", "flowers", "bottles", "stamps",
          "oranges", "toys", "candles"]
MATH_STORIES = [
    "{a} has {n} {things}. {b} gives {a} {m} more {things}. How many {things} does {a} have now?",
    "{a} buys {n} boxes of {things}. Each box holds {m} {things} and costs ${k}. How much does {a} spend in total?",
    "{a} has {n} {things} and {b} has twice as many. How many {things} do they have together?",
    "{a} reads {n} pages a day for {m} days. How many pages does {a} read in total?",
    "A baker makes {n} {things} each hour for {m} hours and sells {k} of them. How many {things} are left?",
    "{a} earns ${n} an hour and works {m} hours a day. How much does {a} earn in {k} days?",
    "{a} shares {n}0 {things} equally among {k} friends. How many {things} does each friend get?",
    "{a} had {n}0 {things}, lost {m} and found {k}. How many {things} does {a} have now?",
    "{a} sells {n} {things} in the morning and {m} in the afternoon at ${k} each. How much money does {a} make?",
    "There are {n} rows of {m} {things} on a shelf. {b} takes away {k} {things}. How many {things} remain?",
    "{a} walks {n} miles and {b} walks {m} miles more than {a}. How many miles do they walk together in {k} days?",
    "{a} is {n} years old. {b} is {m} years older than {a}. How old will {b} be in {k} years?",
]
CODE_VERBS = [("get", "Return the {noun} of the given {owner}."), ("set", "Set the {noun} of the given {owner}."),
              ("load", "Load the {noun} from a file."), ("save", "Save the {noun} to a file."), ("parse", "Parse a {noun} from a string."),
              ("find", "Find the {noun} by its name."), ("delete", "Delete the {noun} from the {owner}."),
              ("update", "Update the {noun} of the {owner}."), ("is_valid", "Return True if the {noun} is valid."),
              ("count", "Count the {noun}s in the {owner}."), ("create", "Create a new {noun} for the {owner}."),
              ("remove", "Remove all {noun}s of this {owner}."), ("convert", "Convert the {noun} to a list of strings."),
              ("read", "Read a {noun} from the {owner} and return it."), ("merge", "Merge two {noun}s into one {owner}."),
              ("filter", "Filter the {noun}s of the {owner} by {argument}.")]
CODE_NOUNS = ["config", "header", "user", "path", "index", "table", "column", "token", "image", "message", "node", "key", "field", "record",
              "filter", "event", "widget", "model", "layer", "tag"]
CODE_OWNERS = ["session", "request", "database", "project", "document", "graph", "window", "client", "queue", "cache", "server", "matrix"]
CODE_ARGUMENTS = ["name", "path", "value", "data", "size", "timeout", "default", "start", "limit", "prefix", "encoding", "verbose"]
CODE_TYPES = ["str", "int", "dict", "list", "bool", "float"]
GERMAN = [
    "Die Stadt {name} liegt am Ufer des Flusses und wurde im {n}. Jahrhundert gegründet. Heute leben dort",
    "Der {adj} Teil von {name} ist für seine Wälder und Berge bekannt. Im Winter",
    "Die Universität von {name} wurde im Jahr 1{n}0 gegründet und gehört zu den {adj}sten des Landes. Die Studenten",
    "Im {n}. Jahrhundert entstand in {name} eine {adj}e Industrie. Die Arbeiter",
]
GERMAN_NAMES = ["Bremen", "Dresden", "Kassel", "Mainz", "Rostock", "Ulm", "Trier", "Halle"]
GERMAN_ADJECTIVES = ["groß", "alt", "klein", "nördlich", "südlich", "wichtig"]
SPANISH = [
    "La ciudad de {name} se encuentra a orillas del río y fue fundada en el siglo {n}. Hoy en día",
    "La parte {adj} de {name} es conocida por sus bosques y montañas. En invierno,",
    "La universidad de {name} fue fundada en el año 1{n}0 y es una de las más {adj}s del país. Los estudiantes",
    "En el siglo {n}, la región de {name} desarrolló una industria {adj}. Los trabajadores",
]
SPANISH_NAMES = ["Burgos", "León", "Murcia", "Cuenca", "Salamanca", "Toledo", "Huelva", "Soria"]
SPANISH_ADJECTIVES = ["grande", "oriental", "importante", "meridional", "occidental", "notable"]


def words(column):
    return column.lower().replace("_", " ")


def sql(draw):
    name = draw.choice(sorted(SCHEMAS))
    tables = SCHEMAS[name]
    table = draw.choice(sorted(tables))
    shown = {}
    for one in draw.sample(sorted(tables), draw.randint(2, 3)):
        columns = tables[one]
        shown[one] = draw.sample(columns, draw.randint(3, len(columns)))
    columns = list(tables[table])
    draw.shuffle(columns)
    text = next((c for c in columns if c in TEXT_COLUMNS), None)
    number = next((c for c in columns if c not in TEXT_COLUMNS and not c.endswith("_ID")))
    text = text or next(c for c in columns if c != number)
    shown[table] = list(dict.fromkeys(shown.get(table, []) + [text, number]))
    schema = "\n".join(f"{t}({', '.join([f'{t.title()}_ID*'] + c)})" for t, c in shown.items())
    question = draw.choice(SQL_QUESTIONS).format(table=table, text=words(text), number=words(number), value=draw.choice(VALUES),
                                                 n=draw.randint(2, 40), m=draw.randint(50, 900))
    return f"Database: {name}\nTables (* = primary key):\n{schema}\n\nQuestion: {question}\nWrite the SQL query."


def math(draw):
    a, b = draw.sample(PEOPLE, 2)
    return draw.choice(MATH_STORIES).format(a=a, b=b, things=draw.choice(THINGS), n=draw.randint(2, 48), m=draw.randint(2, 24),
                                            k=draw.randint(2, 9))


def code(draw):
    verb, sentence = draw.choice(CODE_VERBS)
    noun, owner = draw.choice(CODE_NOUNS), draw.choice(CODE_OWNERS)
    arguments = [owner] + draw.sample(CODE_ARGUMENTS, draw.randint(0, 2))
    lines = [sentence.format(noun=noun, owner=owner, argument=arguments[-1])]
    style = draw.choice(["plain", "sphinx", "google"])
    if style == "sphinx":
        lines += [""] + [f":param {a}: the {a} of the {noun}" for a in arguments] + [f":return: {draw.choice(CODE_TYPES)}"]
    elif style == "google":
        lines += ["", "Args:"] + [f"    {a} ({draw.choice(CODE_TYPES)}): the {a} of the {noun}" for a in arguments]
    doc = lines[0] if style == "plain" else "\n    ".join(lines) + "\n    "
    return f"Complete the Python function.\n```python\ndef {verb}_{noun}(self, {', '.join(arguments)}):\n    \"\"\"{doc}\"\"\"\n```".replace("\n    \n", "\n\n")


def german(draw):
    text = draw.choice(GERMAN).format(n=draw.randint(11, 19), adj=draw.choice(GERMAN_ADJECTIVES), name=draw.choice(GERMAN_NAMES))
    return f"Continue this paragraph:\n{text}"


def spanish(draw):
    text = draw.choice(SPANISH).format(n=draw.randint(11, 19), adj=draw.choice(SPANISH_ADJECTIVES), name=draw.choice(SPANISH_NAMES))
    return f"Continue this paragraph:\n{text}"


TEMPLATES = {"sql": [("sql", sql)], "math": [("math", math)], "code": [("code", code)], "lang": [("lang-de", german), ("lang-es", spanish)]}
# Requests of each topic in ten. sql and code are new traffic for a service whose draft was trained on math and lang.
SHARES = {"sql": 4, "code": 3, "math": 2, "lang": 1}


def of_topic(topic, count, draw):
    """`count` requests (topic, label, prompt) of one topic, no two prompts the same."""
    seen, requests = set(), []
    while len(requests) < count:
        label, template = TEMPLATES[topic][len(requests) % len(TEMPLATES[topic])]
        prompt = template(draw)
        if prompt not in seen:
            seen.add(prompt)
            requests.append((topic, label, prompt))
    return requests


def stream(per_topic, seed=7):
    """(topic, label, prompt), one topic after the other, `per_topic` of each."""
    draw = random.Random(seed)
    return [request for topic in TEMPLATES for request in of_topic(topic, per_topic, draw)]


def traffic(count, seed=7):
    """(topic, label, prompt) of mixed traffic: in every ten requests SHARES of each topic, in random order."""
    draw = random.Random(seed)
    tens = -(-count // sum(SHARES.values()))
    waiting = {topic: of_topic(topic, share * tens, draw) for topic, share in SHARES.items()}
    requests = []
    for _ in range(tens):
        ten = [waiting[topic].pop() for topic, share in SHARES.items() for _ in range(share)]
        draw.shuffle(ten)
        requests += ten
    return requests[:count]
