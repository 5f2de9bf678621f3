"""A B A B: the same measurement on several variants, by turns."""

from harness.statistics import Spread, ratios


class Comparison:
	"""Samples of each variant, round by round."""

	def __init__(self, samples):
		self.samples = samples

	def figures(self, variant, figure=lambda sample: sample.rate):
		return [figure(sample) for sample in self.samples[variant]]

	def spread(self, variant, figure=lambda sample: sample.rate):
		return Spread(self.figures(variant, figure))

	def ratio(self, variant, baseline, figure=lambda sample: sample.rate):
		return ratios(self.figures(variant, figure), self.figures(baseline, figure))

	def failures(self, variant, kind=None):
		return sum(sample.failed() if kind is None else sample.failures.get(kind, 0)
				   for sample in self.samples[variant])

	def total(self, variant):
		return sum(sample.total for sample in self.samples[variant])


def interleave(variants, rounds, measure):
	"""Calls measure(variant) for each variant in turn, that many times over."""
	samples = {variant: [] for variant in variants}
	for _ in range(rounds):
		for variant in variants:
			samples[variant].append(measure(variant))
	return Comparison(samples)
