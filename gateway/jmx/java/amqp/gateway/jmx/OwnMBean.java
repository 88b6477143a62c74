package amqp.gateway.jmx;

import javax.management.AttributeList;
import javax.management.AttributeNotFoundException;
import javax.management.DynamicMBean;
import javax.management.MBeanInfo;
import javax.management.ReflectionException;
import javax.management.Attribute;

/**
 * An MBean of ours. Clients read it by way of their {@link Session}, which says who they are; a call that comes by another
 * way is shown nothing.
 */
abstract class OwnMBean implements DynamicMBean {
    /** Whether it exists for a user. */
    abstract boolean existsFor(int user);

    abstract Object getAttribute(Viewer viewer, String attribute) throws AttributeNotFoundException;

    abstract AttributeList getAttributes(Viewer viewer, String[] attributes);

    abstract MBeanInfo getMBeanInfo(Viewer viewer);

    @Override
    public final Object getAttribute(String attribute) throws AttributeNotFoundException {
        throw new AttributeNotFoundException("only a client reads attributes");
    }

    @Override
    public final AttributeList getAttributes(String[] attributes) {
        return new AttributeList();
    }

    @Override
    public final void setAttribute(Attribute attribute) throws AttributeNotFoundException {
        throw new AttributeNotFoundException("only a client sets attributes");
    }

    @Override
    public final AttributeList setAttributes(AttributeList attributes) {
        return new AttributeList();
    }

    @Override
    public final Object invoke(String operation, Object[] parameters, String[] signature)
            throws ReflectionException {
        throw new ReflectionException(new NoSuchMethodException(operation), "only a client invokes operations");
    }
}
