"""The words that fill IOI prompts: given names, places and objects, each a single word."""

NAMES = tuple(
    """
    Aaron Abigail Adam Alice Amanda Amy Andrea Andrew Angela Anna Anthony Arthur Barbara Benjamin
    Brandon Brian Carol Catherine Charles Christine Claire Daniel David Deborah Diana Donald Edward
    Elena Elizabeth Emily Emma Eric Ethan Frank Gabriel George Hannah Helen Henry Isabel Jack Jacob
    James Janet Jason Jennifer Jeremy Jessica John Jonathan Joseph Joshua Julia Justin Karen Katherine
    Kenneth Kevin Laura Linda Lisa Louis Lucy Margaret Maria Martha Martin Mary Matthew Megan Michael
    Michelle Nancy Nicholas Nicole Oliver Olivia Patricia Patrick Paul Peter Philip Rachel Rebecca
    Richard Robert Roger Ruth Samuel Sarah Scott Simon Sophia Stephen Susan Thomas Timothy Victoria
    William Zachary
    """.split()
)

PLACES = tuple(
    """
    airport aquarium arcade arena attic bakery balcony bank barn basement bay bazaar beach bistro
    boathouse bookshop brewery bridge cabin cafe campsite canteen canyon casino castle cathedral cellar
    chapel chateau church cinema circus clinic cloister club coast college cottage courthouse creek
    dairy depot desert diner dock dormitory embassy fair farm ferry festival field forest forge fort
    fountain gallery garage garden gate gym hall harbour hill hospital hostel hotel inn island kiosk
    kitchen laboratory lake library lighthouse lobby lodge market meadow mill mine monastery mosque
    museum nursery office orchard palace park pharmacy pier plaza pool port pub quarry ranch reservoir
    restaurant river school shop stable stadium station store studio temple theatre tower town
    university valley village vineyard warehouse zoo
    """.split()
)

OBJECTS = tuple(
    """
    apple axe badge bag ball balloon banana basket bell belt bicycle blanket book bottle bowl box
    bracelet bread brick broom brush bucket button cake calendar camera candle cap card carpet chain
    chair cheese clock coat coin comb compass computer cookie cup cushion diary dictionary doll drink
    drum egg envelope eraser fan flag flower flute fork glass glove guitar hammer hat helmet jacket jar
    kettle key kite knife ladder lamp lantern laptop lemon letter magazine map mask medal melon milk
    mirror mug necklace needle newspaper notebook onion orange painting pan paper parcel pear pen pencil
    pepper phone photograph piano pillow plate postcard potato puzzle radio ring rope rug ruler sandwich
    scarf scooter shell shirt shoe soap spoon stamp sweater telescope ticket toy trumpet umbrella vase
    violin wallet watch whistle
    """.split()
)
