-- The verbs, and what decides them: (account or nil, ask, fingerprint, number of the account) -> the account after it, its change as
-- text, and what the record says besides ("\t..."), if anything; or nil and the reason.
decide = {
    open = open, hold = hold, capture = capture, release = release, reverse = reverse,
    set_limits = set_limits, freeze = freeze, unfreeze = unfreeze, close = close, adjust = adjust, repair = repair,
}
