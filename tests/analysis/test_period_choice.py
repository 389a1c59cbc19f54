"""Which candidate is the period: support, opposition, multiples, beats."""

from __future__ import annotations

from gpumon.analysis.period_choice import Said, choose, confirmed
from gpumon.analysis.period_witness import Witness

MINUTE = 60.0


def chosen(**witnesses: Witness) -> Said | None:
    """Return what a look of a minute says."""
    return choose(witnesses, MINUTE)


def test_the_shortest_wins_whose_multiples_the_others_are() -> None:
    """Power and link like the step and twice the step: it is the step, and both speak for it."""
    shares = {0.5: 0.9, 1.0: 0.8, 1.5: 0.7, 0.25: 0.3}
    said = chosen(power=Witness(0.02, shares), link=Witness(0.05, shares))
    assert said is not None
    assert said.period_s == 0.5
    assert said.speaking == {"power", "link"}
    assert said.agreed


def test_a_witness_that_sees_much_less_of_it_opposes() -> None:
    """Power repeats after 0.7 s and the link only after 1.0 s, each blind to the other's: nothing is said."""
    assert chosen(power=Witness(0.02, {0.7: 0.9, 1.0: 0.1}), link=Witness(0.05, {0.7: 0.1, 1.0: 0.9})) is None


def test_two_that_are_no_multiples_cancel_each_other() -> None:
    """One witness likes 0.7 s and 1.0 s alike: two answers are none."""
    assert chosen(power=Witness(0.02, {0.7: 0.8, 1.0: 0.8})) is None


def test_layers_within_a_step_do_not_oppose_it() -> None:
    """Power sees the layers, link and rings agree on the step: it is the step."""
    said = chosen(
        power=Witness(0.02, {0.07: 0.6, 3.4: 0.1}),
        link=Witness(0.05, {3.4: 0.9, 0.07: 0.0}),
        rings=Witness(0.139, {3.4: 0.8}),
    )
    assert said is not None
    assert said.period_s == 3.4
    assert set(said.support) == {"link", "rings"}


def test_steps_of_a_cycle() -> None:
    """The link sees short steps as well as the cycle of 8 s they form: the cycle is not the step."""
    assert chosen(power=Witness(0.02, {8.0: 0.9}), link=Witness(0.05, {8.0: 0.8, 0.5: 0.8})) is None


def test_a_multiple_that_only_slow_sources_see_is_not_the_step() -> None:
    """0.3 s is seen by fast power alone, its double by a source too slow for the step: it is the step."""
    said = chosen(power=Witness(0.1, {0.31: 0.7, 0.62: 0.55}), link=Witness(0.2, {0.62: 0.9}))
    assert said is not None
    assert said.period_s == 0.31


def test_a_part_that_one_witness_sees_at_the_same_few_moments_is_not_said() -> None:
    """Power measures 19 times in each 0.38 s, so a fifth of it explains as much: neither is said of power's word."""
    link = Witness(0.05, {0.38: 0.9, 0.19: 0.7})
    assert chosen(power=Witness(0.02, {0.38: 0.97, 0.076: 0.97}), link=link) is None
    said = chosen(power=Witness(0.02, {0.39: 0.97, 0.078: 0.97}), link=link)
    assert said is not None
    assert said.period_s == 0.078


def test_pieces_of_a_well_measured_step_do_not_silence_it() -> None:
    """Power measures 0.25 s twelve times and sees sixths too: it speaks for the step, not slow sources for two."""
    power = Witness(0.02, {0.25: 0.96, 0.5: 0.84, 0.0417: 0.66})
    said = chosen(power=power, link=Witness(0.125, {0.25: 0.96, 0.5: 0.97}), rings=Witness(0.139, {0.5: 0.92}))
    assert said is not None
    assert said.period_s == 0.25


def test_a_multiple_that_falls_on_the_samples_explains_more() -> None:
    """At 10 Hz 1.403 s is 14 samples and 0.4677 s is none: with 0.6 of its share the shorter one is the step."""
    said = chosen(rings=Witness(0.1, {1.403: 0.5, 0.4677: 0.3}))
    assert said is not None
    assert said.period_s == 0.4677


def test_equal_pieces_of_a_step_are_no_step_to_fast_power() -> None:
    """Four micro-steps and an exchange of the same length: power sees fifths less than the step, so it is that."""
    said = chosen(power=Witness(0.02, {0.58: 0.75, 0.116: 0.58}), rings=Witness(0.139, {0.58: 0.84}))
    assert said is not None
    assert said.period_s == 0.58


def test_what_nobody_resolves_is_not_said() -> None:
    """The best of the candidates has fewer than three measurements: neither it nor its double is said."""
    assert chosen(power=Witness(0.1, {0.203: 0.9, 0.406: 0.8}), rings=Witness(0.139, {0.406: 0.85})) is None


def test_few_cycles_must_be_very_alike() -> None:
    """Lulls of a server repeat after 9 s and are not alike enough; steps of 9 s are."""
    assert chosen(power=Witness(0.02, {9.0: 0.65}), rings=Witness(0.139, {9.0: 0.6})) is None
    assert chosen(power=Witness(0.02, {9.0: 0.9}), rings=Witness(0.139, {9.0: 0.85})) is not None


def test_sources_that_measure_seldom_do_not_agree_by_themselves() -> None:
    """Ten and eight times a second beat with a short step at the same moment: two such witnesses are not enough."""
    said = chosen(power=Witness(0.1, {1.5: 0.8}), link=Witness(0.125, {1.5: 0.8}))
    assert said is not None
    assert not said.agreed
    said = chosen(power=Witness(0.02, {1.5: 0.8}), link=Witness(0.125, {1.5: 0.8}))
    assert said is not None
    assert said.agreed


def test_nobody_says_anything() -> None:
    """No witnesses, or none that finds a candidate good, is no period."""
    assert chosen() is None
    assert chosen(power=Witness(0.02, {1.0: 0.2})) is None


def test_the_spectrum_of_the_slots_confirms_or_says_it_first() -> None:
    """A period that a witness explains and the spectrum shows is confirmed, and said where the witnesses disagree."""
    witnesses = {"nvlink": Witness(0.058, {0.145: 0.86, 0.288: 0.92}), "link": Witness(0.125, {0.288: 0.3})}
    alone = Said(0.288, {"nvlink": 0.92}, frozenset({"nvlink"}), {"nvlink": 0.058})
    both = confirmed(alone, witnesses, (0.2873,))
    assert both is not None and both.beaten
    first = confirmed(None, witnesses, (0.2873,))
    assert first is not None and first.beaten
    assert (first.period_s, set(first.support)) == (0.288, {"nvlink"})


def test_what_fast_power_sees_more_of_in_several_is_a_piece() -> None:
    """Scattering and gathering look alike on the link and in the rings, power tells them apart: a step has both."""
    power = Witness(0.02, {2.866: 0.92, 1.433: 0.70})
    link, rings = Witness(0.02, {2.866: 0.85, 1.433: 0.87}), Witness(0.139, {1.433: 0.61, 2.866: 0.48})
    said = chosen(power=power, link=link, rings=rings)
    assert said is not None
    assert said.period_s == 2.866


def test_an_exchange_as_long_as_each_of_eight_micro_steps() -> None:
    """Nine pieces of which one is another: power sees more of all nine, and no piece is said to be a step."""
    shares = {11.1: 0.83, 1.233: 0.71}
    assert chosen(power=Witness(0.02, shares), rings=Witness(0.139, {11.1: 0.79, 1.233: 0.75})) is None
    assert chosen(power=Witness(0.02, {**shares, 1.233: 0.82}), rings=Witness(0.139, {1.233: 0.75})) is not None


def test_seven_measurements_in_three_steps() -> None:
    """Power sees three steps at the same seven moments; NVLink measures too seldom for one, but sees more of it."""
    power = Witness(0.1, {0.7: 0.85, 0.233: 0.39})
    assert chosen(power=power, nvlink=Witness(0.091, {0.7: 0.57, 0.233: 0.66})) is None
    assert chosen(power=power, nvlink=Witness(0.091, {0.7: 0.57, 0.233: 0.46})) is not None


def test_the_spectrum_does_not_outvote_a_witness_that_opposes() -> None:
    """The link and its spectrum see two exchanges in a step, power one step: their agreement is one witness."""
    link, beats = Witness(0.125, {1.10: 0.4, 0.563: 0.81}), (0.5628,)
    assert confirmed(None, {"power": Witness(0.02, {1.10: 0.71, 0.563: 0.14}), "link": link}, beats) is None
    assert confirmed(None, {"power": Witness(0.02, {1.10: 0.71, 0.563: 0.55}), "link": link}, beats) is None
    assert confirmed(None, {"power": Witness(0.02, {1.10: 0.71, 0.563: 0.66}), "link": link}, beats) is not None


def test_a_witness_too_slow_for_half_a_step_knows_it_is_half() -> None:
    """NVLink and its spectrum say 0.27 s; eight slots a second lie on no curve of 0.27 s, and on one of 0.55 s."""
    nvlink, beats = Witness(0.058, {0.2728: 0.71, 0.5464: 0.57}), (0.2728,)
    alone = Said(0.2728, {"nvlink": 0.71}, frozenset({"nvlink"}), {"nvlink": 0.058})
    both = {"nvlink": nvlink, "link": Witness(0.125, {0.2728: -0.02, 0.5464: 0.74})}
    assert confirmed(alone, both, beats) is alone
    assert confirmed(None, both, beats) is None
    said = confirmed(alone, {"nvlink": nvlink}, beats)
    assert said is not None and said.beaten


def test_two_and_three_steps_that_seldom_measured_sources_see_are_neither() -> None:
    """0.2 s is too short for all; power likes two of it, the others three: 0.6 s is not said."""
    link, rings = Witness(0.125, {0.402: 0.63, 0.601: 0.66}), Witness(0.139, {0.402: 0.3, 0.601: 0.58})
    assert chosen(power=Witness(0.1, {0.402: 0.79, 0.601: 0.89}), link=link, rings=rings) is None
    assert chosen(power=Witness(0.1, {0.402: 0.2, 0.601: 0.89}), link=link, rings=rings) is not None


def test_a_spectrum_that_no_witness_shares_says_nothing() -> None:
    """Neither a multiple of what is said nor a period that nobody explains is confirmed."""
    witnesses = {"power": Witness(0.02, {0.219: 0.79, 0.875: 0.23})}
    alone = Said(0.219, {"power": 0.79}, frozenset({"power"}), {"power": 0.02})
    assert confirmed(alone, witnesses, (0.875,)) is alone
    assert confirmed(None, witnesses, (0.875,)) is None
