package contract

// table is all that is promised.
func table() []row {
	return []row{
		// Tokens, over the control listener.
		{"the answer to a creation names owner and requester", namesOwnerAndRequester},
		{"without an owner it is one's own token", ownToken},
		{"a life is cut to the longest without an error", lifeIsCut},
		{"renewers are users", renewersAreUsers},
		{"a token for another needs CREATE_TOKENS on that user", creationNeedsGrant},
		{"only owner and renewers expire a token", onlyOwnerOrRenewerExpires},
		{"a token that is expired with a period below 0 is gone", removedAtOnce},
		{"a token that is expired with period 0 stays until a sweep", expiredUntilSwept},
		{"an expired token can be removed before the sweep", expiredIsRemoved},
		{"renewal moves the expiry but not past the longest life", renewal},
		{"an unknown token is neither renewed nor expired", unknownToken},
		{"without a secret key there are no tokens", noSecretKey},
		{"over a token login there are no token requests", noTokenRequestsWithToken},

		// Who sees which tokens.
		{"an owner list finds what its principals own, asked for or may renew", describeByOwners},
		{"one sees only tokens of which one is owner, requester or renewer", describeOwnOnly},
		{"DESCRIBE_TOKENS on a user opens that user's tokens", describeByGrant},
		{"a description has everything that a login needs", describeIsWhole},
		{"brokers learn of a token each in its own time", propagation},

		// Logins.
		{"a token logs in by both mechanisms and all versions", logins},
		{"a login is the token's owner to the ACLs", loginIsOwner},
		{"a login that proves nothing gets error 58 and a close", refusedLogins},
		{"names with commas, equals signs and blanks log in", oddNames},
		{"all of a login in one write is taken", oneWrite},
		{"salts are each broker's own, and new after a renewal", salts},

		// The session's end.
		{"a session lasts as long as its token", sessionLifetime},
		{"connections.max.reauth.ms cuts a session", sessionIsCut},
		{"a request that is read after the session's end ends the connection", expiredSession},
		{"the session's end is judged when a request is read, not when it came", judgedWhenRead},
		{"expiring a token ends no connection", expiryEndsNoConnection},
		{"renewing a token prolongs no session", renewalProlongsNothing},

		// Re-authentication (KIP-368).
		{"another token of the owner takes a connection over", reauthentication},
		{"re-authentication works long after the session's end", lateReauthentication},
		{"a handshake behind an unanswered request works, across the session's end too", pipelinedReauthentication},
		{"within a second of the last re-authentication there is error 34", hastyReauthentication},
		{"another owner's token is refused, with a close", anotherOwner},
		{"another mechanism is refused, with a close", anotherMechanism},
		{"a refused re-authentication closes", refusedReauthentication},
		{"any other request during a re-authentication closes", interruptedReauthentication},
		{"SaslAuthenticate without a handshake gets error 34", authenticateOutOfTurn},

		// Before the login, and what is no request.
		{"before the login only ApiVersions and SaslHandshake are served", beforeLogin},
		{"an unsupported mechanism gets error 33, the list and a close", unsupportedMechanism},
		{"ApiVersions above the broker's gets error 35 as version 0 and goes on", versionsTooNew},
		{"what is no request closes", badFrames},

		// Listeners.
		{"ApiVersions offers the token requests on both listeners", offersTokenRequests},
		{"answers name the listener that was asked", addresses},
		{"the control listener demands a certificate", certificateDemanded},
		{"the control listener knows no logins", noLoginOnControl},
	}
}
