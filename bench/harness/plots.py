"""Plots by gnuplot, as SVG."""

import os
import subprocess

# Told apart by shape as well as by colour, on a light and on a dark page.
STYLES = [('#1f77b4', 7), ('#7f7f7f', 5), ('#d62728', 9), ('#ff7f0e', 11)]


def draw(directory, file, title, panels):
	"""Panels side by side; each (title, x label, y label, settings, series), a
	series (name, points)."""
	script = ['set terminal svg size %d,440 font "sans-serif,13" background "#ffffff"'
			  % (520 * len(panels)),
			  'set output "%s"' % file,
			  'set border 3', 'set tics nomirror', 'set grid back linewidth 1 linecolor "#dddddd"',
			  'set multiplot layout 1,%d title "%s" font "sans-serif,15"' % (len(panels), title)]
	for panel_title, x_label, y_label, settings, series in panels:
		script += ['unset logscale', 'set autoscale', 'set key bmargin center Left reverse noenhanced maxcols 2', 'set xtics autofreq',
				   'set ytics autofreq', 'set format "%g"',
				   'set title "%s"' % panel_title, 'set xlabel "%s"' % x_label,
				   'set ylabel "%s"' % y_label]
		script += settings
		for number, (name, points) in enumerate(series):
			script += ['$data%d << EOD' % number]
			script += ['%g %g' % point for point in points] + ['EOD']
		script += ['plot ' + ', '.join(
			'$data%d with linespoints linewidth 2 linecolor "%s" pointtype %d title "%s"'
			% (number, *STYLES[number], name) for number, (name, _) in enumerate(series))]
	script += ['unset multiplot', 'set output']
	done = subprocess.run(['gnuplot'], input='\n'.join(script) + '\n', cwd=directory,
						  capture_output=True, text=True)
	if done.returncode != 0 or not os.path.exists(os.path.join(directory, file)):
		raise RuntimeError('gnuplot: %s' % done.stderr.strip()[-500:])
