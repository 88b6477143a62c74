package amqp.gateway.jmx;

/** The rights of all users to objects of a class, by the numbers of the users; objects share it. */
final class Access {
    final ClassDefinition definition;
    private final boolean isForEverybody;
    /** Null for a user for whom the objects do not exist. */
    private volatile Rights[] rights;

    /** @param rights by the number of the user; null for whom the objects do not exist */
    Access(ClassDefinition definition, Rights[] rights) {
        this.definition = definition;
        this.isForEverybody = false;
        this.rights = rights;
    }

    /** All rights, for all users. */
    Access(ClassDefinition definition) {
        this.definition = definition;
        this.isForEverybody = true;
        this.rights = new Rights[] {definition.whole()};
    }

    /** The rights of a user; null where the objects do not exist for that user. */
    Rights of(int user) {
        Rights[] present = rights;
        if (isForEverybody) {
            return present[0];
        }
        return user >= 0 && user < present.length ? present[user] : null;
    }

    boolean exists(int user) {
        return of(user) != null;
    }

    /** Another policy: the objects exist only for those who are not restricted, until they are registered again. */
    void revoke(boolean[] unrestricted) {
        if (isForEverybody) {
            return;
        }
        Rights[] kept = rights.clone();
        for (int user = 0; user < kept.length; user++) {
            if (user >= unrestricted.length || !unrestricted[user]) {
                kept[user] = null;
            }
        }
        rights = kept;
    }
}
