# The one place to build, install, run and test queue_state from.
#
# The extension is built here with PGXS, the collector in collector/ with its
# own Makefile: PGXS makes a library or a program, not both.  All work that is
# more than a compilation is in scripts/.  `make help` lists the targets.

EXTENSION  = queue_state
MODULE_big = queue_state

# The control file alone says which version this is.
EXTVERSION := $(shell sed -n "s/^default_version *= *'\(.*\)'.*/\1/p" $(EXTENSION).control)
SCRIPT      = $(EXTENSION)--$(EXTVERSION).sql

# The parts of the install script, each after those it refers to.
SQL_PARTS = types identifiers tables indexes rollup queue_details counting queues delivery \
	retry dead_letters maintenance inbox reading privileges
SQL_FILES = $(SQL_PARTS:%=sql/%.sql)

OBJS       = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c)))
DATA_built = $(SCRIPT)
# Released versions: frozen install scripts, and the steps between them.
DATA       = $(filter-out sql/$(SCRIPT),$(wildcard sql/$(EXTENSION)--*.sql))

# The server's headers are system headers, so that -Wextra speaks of our code
# alone.  Callbacks and PG_FUNCTION_ARGS fix the parameters of most functions:
# one that needs none of them is no mistake.  And its lengthof() and sizes are
# unsigned where its counts and indexes are int.
PG_CPPFLAGS = -isystem $(includedir_server) -DQS_VERSION='"$(EXTVERSION)"'
PG_CFLAGS   = -std=c11 -Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare

# Every file in test/sql and test/specs is a test; they run in this order, each
# by itself, in one database that has the extension.
REGRESS   = $(patsubst test/sql/%.sql,%,$(sort $(wildcard test/sql/*.sql)))
ISOLATION = $(patsubst test/specs/%.spec,%,$(sort $(wildcard test/specs/*.spec)))
# Expected results are in expected/ for both.  pg_regress looks there first
# whatever the input directory is; its isolation twin takes specs, but not
# expected results, from the output directory.
REGRESS_OPTS   = --inputdir=test --load-extension=$(EXTENSION)
ISOLATION_OPTS = --load-extension=$(EXTENSION) --outputdir=test

TAP_TESTS   = 1
PROVE_TESTS = $(sort $(wildcard test/t/*.pl))

# Without a server's build files everything but the extension still works:
# `make run` and `make test` install them first.
ifeq ($(PG_CONFIG),)
override PG_CONFIG := pg_config
endif
PGXS := $(wildcard $(shell $(PG_CONFIG) --pgxs 2>/dev/null))
.DEFAULT_GOAL := all

ifneq ($(PGXS),)
include $(PGXS)
# with_llvm makes a bitcode file beside each object
$(OBJS) $(OBJS:.o=.bc): $(wildcard src/*.h) $(EXTENSION).control Makefile
else
all install installcheck uninstall:
	@echo 'make $@: $(PG_CONFIG) knows no PGXS; install the server development package' \
		'(scripts/install-packages does) or say PG_CONFIG=/path/to/pg_config' >&2
	@exit 1
endif

$(SCRIPT): $(SQL_FILES) $(EXTENSION).control Makefile
	@{ \
		printf '%s\n' '-- $@: made from sql/ by make; edit the parts there.' '' \
			'-- complain if script is sourced in psql, rather than via CREATE EXTENSION' \
			'\echo Use "CREATE EXTENSION $(EXTENSION)" to load this file. \quit'; \
		for part in $(SQL_FILES); do echo; cat $$part; done; \
	} >$@.new
	@mv $@.new $@

# The collector; COLLECTOR=no on a database server that is to have only the
# extension, and none of the collector's libraries.
ifneq ($(wildcard collector/Makefile),)
ifneq ($(COLLECTOR),no)
all: collector
endif
collector:
	$(MAKE) -C collector
install-collector uninstall-collector:
	$(MAKE) -C collector $(@:-collector=)
soak:
	$(MAKE) -C collector soak
clean-collector:
	$(MAKE) -C collector clean
clean: clean-collector
endif

# What people run
run test lint format:
	PG_CONFIG='$(PG_CONFIG)' scripts/$@
bench:
	PG_CONFIG='$(PG_CONFIG)' bench/run
bench-quick:
	PG_CONFIG='$(PG_CONFIG)' bench/run --quick
unit:
	$(MAKE) -C test/unit check PG_CONFIG='$(PG_CONFIG)'
	$(if $(wildcard collector/Makefile),$(MAKE) -C collector check)

help:
	@printf '%s\n' \
		'make               build the extension and the collector' \
		'make install       install the extension; install-collector: the collector' \
		'make installcheck  run the tests against a server that is already running' \
		'make run           a private cluster under load, watched by a collector' \
		'make test          every test there is, on clusters of their own' \
		'make unit          the C unit tests alone' \
		'make soak          the collector under sanitizers (see CONTRIBUTING.md)' \
		'make bench         the benchmarks; bench-quick: three minutes of them' \
		'make lint format   check the style; apply it' \
		'make clean         remove what make made'

# Also without PGXS, and also what an earlier version or a test left.
clean: clean-here
clean-here:
	rm -f $(EXTENSION)--*.sql $(EXTENSION)--*.sql.new $(MODULE_big).so src/*.o src/*.bc
	rm -rf test/unit/build results regression.diffs regression.out test/results \
		test/regression.diffs test/regression.out output_iso tmp_check tmp_check_iso
	test ! -L .test || rm -rf "$$(readlink .test)"
	rm -rf .test

.PHONY: all install uninstall installcheck clean clean-here help run test unit \
	lint format bench bench-quick soak collector install-collector \
	uninstall-collector clean-collector
