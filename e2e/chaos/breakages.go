package chaos

// mutations are the rules that are broken, one at a time.
var mutations = []mutation{
	{
		name: "apply-anywhere", breaks: "apply adopts whatever head Redis has (rules 1 and 4)",
		edits: []edit{{
			"lua/apply.lua", "if head[1] ~= believed_position or head[2] ~= believed_chain then return stop('OUT_OF_SYNC', 'head') end",
			"if head[1] and head[2] then believed_position, believed_chain = head[1], head[2] else return stop('OUT_OF_SYNC', 'head') end",
		}},
		module: "lua", test: "TestOutOfSyncChangesNothing",
	},
	{
		name: "lost-key-is-empty", breaks: "a lost key reads as nothing remembered (rule 2)",
		edits: []edit{
			{"lua/include/gather.lua", " or torn('recent outcomes', recent) or torn('old outcomes', old)", ""},
			{"lua/inspect.lua", "for _, key in ipairs({ ACCOUNTS, HOLDS, RECENT, OLD }) do", "for _, key in ipairs({ ACCOUNTS, HOLDS }) do"},
		},
		module: "lua", test: "TestInspectTellsEmptyBrokenAndWholeApart",
	},
	{
		name: "decide-again", breaks: "a remembered outcome is not looked at (rule 3)",
		edits:  []edit{{"lua/include/decide.lua", "local outcome = decided[id] or recent[at] or old[at]", "local outcome = decided[id]"}},
		module: "lua", test: "TestKnownIdsGetTheOutcomeTheyHad",
	},
	{
		name: "publish-unlinked", breaks: "the outbox is published without looking at its links (rule 13)",
		edits: []edit{
			{"ledger-writer/recover.go", "if entry.Before != at {\n\t\t\treturn nil, nil, false\n\t\t}\n", ""},
			{"ledger-writer/recover.go", "return committed, unpublished, at == state.Head", "return committed, unpublished, at == at"},
		},
		module: "ledger-writer", test: "TestHeadsAreComparedAsTheTableSays",
	},
	{
		name: "compare-positions-only", breaks: "a head behind counts as the log's own prefix, whatever its chain (rule 13)",
		edits: []edit{
			{"ledger-writer/recover.go", "case state.Head.Position < last.Position && state.Head == logAt:", "case state.Head.Position < last.Position && logAt.Position == logAt.Position:"},
			{"lua/link.go", "func LinkAfter(before Link, e *ledgerv1.Event) (Link, error) {", "func LinkAfter(before Link, e *ledgerv1.Event) (Link, error) {\n\tif before.Position+1 == e.GetOutcome().GetPosition() {\n\t\treturn LinkOf(e), nil\n\t}"},
		},
		module: "ledger-writer", test: "TestAForkedRedisIsRebuilt",
	},
	{
		name: "replay-anywhere", breaks: "replay does not look at the head before it (rule 13)",
		edits: []edit{
			{"lua/replay.lua", "elseif head[1] ~= before_position or head[2] ~= before_chain or not", "elseif not"},
			{"lua/replay.lua", "if carried.err or (carried[1] or '') ~= before_chain then", "if carried.err then"},
			{"lua/replay.lua", "if records.err or (records[1] or '') ~= before_chain then", "if records.err then"},
		},
		module: "lua", test: "TestReplayIsRefused.*",
	},
	{
		name: "forget-outcomes", breaks: "a rebuild restores accounts and no outcomes (rule 15)",
		edits:  []edit{{"lua/replay.lua", "outcomes[#outcomes + 1], outcomes[#outcomes + 2] = sub(id, 1, HASH_BYTES), ARGV[i + 2] .. record", ""}},
		module: "lua", test: "TestABuildIsSeenOnlyWhenItIsSwappedIn|TestReplayBringsAShardThatFellBehindToTheLog",
	},
	{
		name: "stay-where-polled", breaks: "after a recovery the commands go on where they were polled, not at the committed offset (rule 14)",
		edits: []edit{{
			"ledger-writer/recover.go", "w.session.Client().SetOffsets(map[string]map[int32]kgo.EpochOffset{topics.Commands: rewind}) // rule 14", "_ = rewind",
		}},
		module: "ledger-writer", test: "TestErrorsOfKafkaGiveEveryCommandExactlyOneEvent",
	},
	{
		name: "offsets-with-the-outbox", breaks: "publishing the outbox commits what was polled (rule 13)",
		edits:  []edit{{"ledger-writer/recover.go", "w.commit(ctx, map[int]kgo.EpochOffset{s.number: offset})", "w.commit(ctx, nil)"}},
		module: "ledger-writer", test: "TestPublishingTheOutboxCommitsNoCommandThatIsNotDecided",
	},
	{
		name: "any-generation", breaks: "offsets are committed in whatever generation the client is by then (rule 6)",
		edits:  []edit{{"ledger-writer/commit.go", "if request.MemberID != memberID || request.Generation != generation {", "if memberID == \"never\" && generation == -7 {"}},
		module: "ledger-writer", test: "TestAClientThatMovedOnCommitsNothing",
	},
	{
		name: "unknown-is-committed", breaks: "a commit whose outcome is unknown counts as confirmed (rule 8)",
		edits: []edit{{
			"ledger-writer/commit.go", "return fmt.Errorf(\"%w: the outcome of a commit is unknown: %w\", errTenureOver, err)", "w.logger.Debug(fmt.Sprint(errTenureOver))",
		}},
		module: "ledger-writer", test: "TestErrorsOfKafkaGiveEveryCommandExactlyOneEvent",
	},
	{
		name: "no-recovery-after-abort", breaks: "after an aborted batch the writer goes on with the heads it believes in (rule 8)",
		edits:  []edit{{"ledger-writer/tenure.go", "\tw.owned.doubtAll()\n\tif errors.Is(cause, errTenureOver) {", "\tif errors.Is(cause, errTenureOver) {"}},
		module: "ledger-writer", test: "TestErrorsOfKafkaGiveEveryCommandExactlyOneEvent",
	},
	{
		name: "endless-commit", breaks: "a commit waits for as long as it takes (the time budget of rule 8)",
		edits:  []edit{{"ledger-writer/commit.go", "ctx, cancel := context.WithTimeout(ctx, w.cfg.TransactionTimeout)", "ctx, cancel := context.WithCancel(ctx)"}},
		module: "ledger-writer", test: "TestAMembershipThatEndsBetweenApplyAndCommitDoesNotHangTheWriter",
	},
	{
		name: "trim-before-commit", breaks: "the outbox is trimmed before the commit (rule 9)",
		edits: []edit{{
			"ledger-writer/writer.go", "\tif err := w.commit(work, nil); err != nil {\n\t\treturn err\n\t}\n\thit(trapCommitted)\n\tw.trim(work, batch)\n",
			"\tw.trim(work, batch)\n\tif err := w.commit(work, nil); err != nil {\n\t\treturn err\n\t}\n\thit(trapCommitted)\n",
		}},
		module: "e2e", test: "TestAWriterThatDiesBetweenStepsLosesAndDoublesNothing",
	},
	{
		name: "no-wait-for-open-transactions", breaks: "the last event is read while a transaction is open (rule 12)",
		edits:  []edit{{"ledger-writer/log.go", "if stable < watermark {", "if stable < 0 {"}},
		module: "ledger-writer", test: "TestTheLastEventIsReadWhenNoTransactionIsOpen",
	},
	{
		name: "no-idle-check", breaks: "nobody looks at an idle shard (rule 17)",
		edits:  []edit{{"ledger-writer/poll.go", "if s.inDoubt || time.Since(s.checkedAt) < w.cfg.IdleCheck {", "if s.inDoubt || time.Since(s.checkedAt) < time.Hour {"}},
		module: "ledger-writer", test: "TestAWipeOrRollbackOfAnIdleShardIsHealed",
	},
	{
		name: "hear-the-uncommitted", breaks: "callers and projectors read what is not committed (rule 7)",
		edits:  []edit{{"chassis/kafka/client.go", "kgo.FetchIsolationLevel(kgo.ReadCommitted())", "kgo.FetchIsolationLevel(kgo.ReadUncommitted())"}},
		module: "producer", test: "TestAbortedReplyIsNeverSeen",
	},
	{
		name: "insert-without-token", breaks: "an insert that is repeated gets another identity, and nobody asks whether it landed",
		edits: []edit{
			{"projector/insert.go", "if tries++; tries > 1 {", "if tries++; tries > 1_000_000 {"},
			{"projector/intent.go", "return fmt.Sprintf(\"%s/%s/%d/%d/%d-%d\", topics.Events,", "return fmt.Sprintf(\"%d/%s/%s/%d/%d/%d-%d\", time.Now().UnixNano(), topics.Events,"},
		},
		module: "projector", test: "TestSameRowsUnderTheSameTokenLandOnce",
	},
	{
		name: "insert-without-intent", breaks: "the range is not made durable before it is inserted",
		edits:  []edit{{"projector/worker.go", "if err := w.commit(ctx, w.next(b)); err != nil {\n\t\t\treturn err\n\t\t}\n\t\tif err := w.insert", "if err := w.insert"}},
		module: "projector", test: "TestRestartAfter.*|TestInsertOfAZombieLandsLate|TestSecondIntent.*|TestEveryCommittedEventIsOneRow",
	},
	{
		name: "crash-asks-for-nothing", breaks: "what a transfer asks for is sent neither from the outbox nor when the transfer comes again",
		edits: []edit{
			{"ledger-writer/publish.go", "if next := derive(e.GetCommand(), e.GetOutcome()); next != nil {", "if next := derive(e.GetCommand(), e.GetOutcome()); next != nil && next.CommandId == \"\" {"},
			{"ledger-writer/publish.go", "if next := derive(command.Command, outcome); next != nil {", "if next := derive(command.Command, outcome); next != nil && d.Kind == lua.Decided {"},
		},
		module: "e2e", test: "TestAWriterThatDiesBetweenStepsLosesAndDoublesNothing",
	},
	{
		name: "retry-asks-for-nothing", breaks: "what a transfer asks for is not asked for again when the transfer comes again",
		edits: []edit{
			{"ledger-writer/publish.go", "if next := derive(command.Command, outcome); next != nil {", "if next := derive(command.Command, outcome); next != nil && d.Kind == lua.Decided {"},
		},
		module: "e2e", test: "TestARetriedTransferIsToldItsOneOutcome",
	},
	{
		name: "nothing-comes-back", breaks: "a transfer that is refused at its far end is not returned",
		edits:  []edit{{"ledger-writer/derive.go", "case op == ledgerv1.Operation_OPERATION_CREDIT && c.GetOrigin() != nil && !applied:", "case op == ledgerv1.Operation_OPERATION_CREDIT && c.GetOrigin() == nil && !applied:"}},
		module: "e2e", test: "TestACarelessWorkloadIsAudited",
	},
	{
		name: "told-on-the-way", breaks: "the caller of a transfer is told before its end is known",
		edits: []edit{{
			"ledger-writer/derive.go", "if setsOut(c, o) {\n\t\t\treturn nil\n\t\t}\n", "",
		}},
		module: "e2e", test: "TestARetriedTransferIsToldItsOneOutcome|TestCommandsThatComeBackAfterTheWindowKeepTheirOutcome",
	},
	{
		name: "forgotten-is-new", breaks: "a command that Redis may have forgotten is decided without a look at ClickHouse (rule 18)",
		edits:  []edit{{"lua/include/window.lua", "return string.sub(forgotten, 1, 2) ~= '0 ' and", "return false and"}},
		module: "e2e", test: "TestCommandsThatComeBackAfterTheWindowKeepTheirOutcome",
	},
	{
		name: "look-up-in-the-past", breaks: "a ClickHouse that does not have yet what Redis forgot is believed (rule 18)",
		edits:  []edit{{"ledger-writer/lookup.go", "if !complete {", "if !complete && a.shard < 0 {"}},
		module: "e2e", test: "TestCommandsThatComeBackAfterTheWindowKeepTheirOutcome",
	},
	{
		name: "clock-behind", breaks: "a writer whose clock is behind decides what is yet to be asked for (rule 18)",
		edits:  []edit{{"ledger-writer/apply.go", "if err := call.CheckClock(); err != nil {", "if err := call.CheckClock(); err != nil && len(next) == 0 {"}},
		module: "ledger-writer", test: "TestAWriterWhoseClockIsBehindDecidesNothing",
	},
	{
		name: "lost-holds-are-none", breaks: "a lost key of holds reads as no holds (rule 2)",
		edits:  []edit{{"lua/include/gather.lua", " or torn('holds', open)", ""}},
		module: "lua", test: "TestOutOfSyncChangesNothing",
	},
	{
		name: "rebuild-without-holds", breaks: "a rebuild restores accounts and no holds (rule 15)",
		edits:  []edit{{"lua/replay.lua", "if record == '' then redis.call('HDEL', HOLDS, id) else redis.call('HSET', HOLDS, id, record) end", ""}},
		module: "lua", test: "TestApplyDoesWhatTheModelDoes|TestABuildIsSeenOnlyWhenItIsSwappedIn|TestReplayBringsAShardThatFellBehindToTheLog|TestARebuild.*",
	},
	{
		name: "rebuild-without-totals", breaks: "a rebuild forgets how much was undone of what (rule 15)",
		edits:  []edit{{"lua/replay.lua", "if redis.call('HEXISTS', bucket, id) == 1 then", "if redis.call('HEXISTS', bucket, id) == 7 then"}},
		module: "lua", test: "TestApplyDoesWhatTheModelDoes|TestABuildIsSeenOnlyWhenItIsSwappedIn|TestReplayBringsAShardThatFellBehindToTheLog|TestARebuild.*",
	},
	{
		name: "undo-without-end", breaks: "more is undone of a command than it changed",
		edits:  []edit{{"lua/include/reverse.lua", " or below(whole_high, whole_low, total_high, total_low)", ""}},
		module: "lua", test: "TestApplyDoesWhatTheModelDoes",
	},
	{
		name: "any-head", breaks: "the reconciler compares a reading of Redis whose head is not in the log",
		edits:  []edit{{"reconciler/barrier.go", "if len(logged) > 0 && !slices.Contains(logged, head.Chain) {", "if len(logged) > 0 && !slices.Contains(logged, head.Chain) && head.Chain == \"\" {"}},
		module: "reconciler", test: "TestRecoveryDuringTheRunIsNoBreak|TestReadingIsGivenUpWhenTheShardChangesHands",
	},
}
