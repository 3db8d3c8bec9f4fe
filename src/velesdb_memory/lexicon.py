"""The words the analyser knows: stop words of several languages, and irregular English forms."""

from __future__ import annotations

from typing import Final

# Folded as the analyser folds: no accents. A stop word of one language that is a name or a common content
# word of another one here is left out ("son", "car", "die", "hat", "van", "met", "era"): rarity already gives
# it little weight where it is frequent, and where it is not, it says something.
_ENGLISH = """
a about above after again all also am an and any are as at be because been before being below between both
but by can cannot could did do does doing done down during each either else ever few for from further get
gets getting got had has have having he her here hers herself him himself his how however i if in into is it
its itself just let lets me might more most much must my myself neither no nor not now of off on once only
or other our ours ourselves out over own per quite rather really same shall she should so some such than
that the their theirs them themselves then there these they this those though through to too under until up
upon us very was we were what when where whether which while who whom whose why will with within without
would yes yet you your yours yourself yourselves
"""
_FRENCH = """
au aux avec ce ceci cela celle celles celui ces cet cette ceux chez comme dans de des donc dont du elle
elles en est et etaient etait etant ete etre eu il ils je la le les leur leurs lui ma mais meme mes ne nos
notre nous on ou par pas quand que quel quelle quelles quels qui sa sans ses si sont suis sur ta te tes toi
tous tout toute toutes tu un une vos votre vous y
"""
_GERMAN = """
aber als am auch auf aus bei beim bis bist da damit dann das dass dein deine dem den denn der des dich doch
du durch ein eine einem einen einer eines er es euch euer gegen habe haben hatte hatten hier ich ihm ihn
ihnen ihr ihre ihrem ihren ihrer im ins ist ja jede jedem jeden jeder jedes kann kein keine keinem keinen
keiner konnen mein meine meinem meinen meiner mich mir mit nach nicht noch nur ob oder ohne sehr sein seinem
seinen seiner sich sie sind so uber um und uns unser unsere unter vom von vor warum wenn wer werde werden
wie wieder wird wo wurde wurden zu zum zur zwischen
"""
_SPANISH = """
al algo como cual cuando cuya cuyo de del desde donde dos durante el ellas ellos en entre eran eres es esa
esas ese eso esos esta estaba estaban estan estar estas este esto estos estoy fue fueron ha hasta he la las
le les lo los mas me mi mis mucho muy nada ni nos nosotros nuestra nuestro o os para pero por porque que
quien quienes se ser si sobre somos su sus tambien te tener ti tiene tienen tu tus un una unos y ya yo
"""
_ITALIAN = """
agli al alla alle allo anche avere che chi ci coi cosi cui da dagli dal dalla dalle dallo degli dei del
della delle dello di e erano essere gli ha hanno ho i il in io la le lei lo loro lui ma mi miei ne negli nei
nel nella nelle nello noi non nostra nostro o ogni per perche piu quale quando quella quelle quelli quello
questa queste questi questo sei si sia siamo sono sua sugli sui sul sulla sulle suo suoi ti tra tu tua tuo
un una uno vi voi
"""
_PORTUGUESE = """
ao aos aquela aquele aquilo as com como da das de dela dele deles depois do dos e ela elas ele eles em entre
eram essa esse esta estao estava este eu foi foram ha isso isto ja lhe mais mas me mesmo meu meus minha
minhas muito na nao nas nem no nos nossa nosso num numa o os ou para pela pelas pelo pelos por qual quando
quem sao se sem ser seu seus so sua suas tambem te tem tinha um uma voce voces
"""
_DUTCH = """
aan al als bij dat de deze dit een en er heb hebben heeft het hij hoe ik in is je maar me mij mijn naar niet
nog nu of om ons ook op te tot uit voor waar wat we wel werd wie wij worden zal ze zich zij zijn zo
"""
_RUSSIAN = """
а бы был была были было в вам вас во вот вы где да для до его ее если есть еще же за и из или им их к как ко
когда кто ли мне мы на над не него нее нет ни но ну о об он она они оно от по под при с со так также там то
того тоже только ты у уже что чтобы эта эти это этот я
"""
# Left over where an apostrophe parts a word: it's, we'll, they've, c'est, l'homme, qu'il, dell'arte
ELISIONS: Final = frozenset(
    ["s", "t", "d", "m", "ll", "ve", "re", "c", "j", "l", "n", "qu", "all", "dall", "dell", "nell", "sull", "un"]
)
STOP_WORDS: Final = frozenset(
    word
    for language in (_ENGLISH, _FRENCH, _GERMAN, _SPANISH, _ITALIAN, _PORTUGUESE, _DUTCH, _RUSSIAN)
    for word in language.split()
)

# base form: its irregular forms. Forms that are common words of another meaning are left out: saw, left, found
_IRREGULAR = """
arise: arose arisen
be: been
become: became
begin: began begun
bend: bent
bind: bound
bite: bit bitten
blow: blew blown
break: broke broken
bring: brought
build: built
burn: burnt
buy: bought
catch: caught
choose: chose chosen
come: came
deal: dealt
die: died dying
dig: dug
draw: drew drawn
dream: dreamt
drink: drank drunk
drive: drove driven
eat: ate eaten
fall: fell fallen
feed: fed
feel: felt
fight: fought
fly: flew flown flies
forget: forgot forgotten
forgive: forgave forgiven
freeze: froze frozen
give: gave given
go: went gone goes going
grow: grew grown
hang: hung
hear: heard
hide: hid hidden
hold: held
keep: kept
know: knew known
lay: laid
lead: led
learn: learnt
lend: lent
lie: lied lying
lose: lost
make: made
mean: meant
meet: met
pay: paid
prove: proven
ride: rode ridden
ring: rang rung
rise: rose risen
run: ran
say: said says
see: seen
seek: sought
sell: sold
send: sent
shake: shook shaken
shoot: shot
show: shown
sing: sang sung
sink: sank sunk
sit: sat
sleep: slept
speak: spoke spoken
spend: spent
stand: stood
steal: stole stolen
stick: stuck
strike: struck
swear: swore sworn
sweep: swept
swim: swam swum
swing: swung
take: took taken
teach: taught
tear: tore torn
tell: told
think: thought
throw: threw thrown
tie: tied tying
understand: understood
use: used using
wake: woke woken
wear: wore worn
win: won
write: wrote written
child: children
foot: feet
goose: geese
knife: knives
leaf: leaves
life: lives
man: men
mouse: mice
tooth: teeth
wife: wives
wolf: wolves
woman: women
"""
IRREGULAR_FORMS: Final = {
    form: base
    for line in _IRREGULAR.strip().split("\n")
    for base, _, forms in [line.partition(": ")]
    for form in forms.split(" ")
}
# What looks like a plural or another form, and is none
UNCHANGED: Final = frozenset(["always", "evening", "lens", "news", "perhaps", "series", "species", "texas"])
