import java.util.Set;
import javax.management.InstanceNotFoundException;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** Reads one attribute of one bean, or the sum over all that fit a pattern, at several endpoints. */
final class Jmx {
    private final Step step;
    private final Result result;

    Jmx(Step step, Result result) {
        this.step = step;
        this.result = result;
    }

    void run() throws Exception {
        ObjectName bean = new ObjectName(step.get("bean", ""));
        String attribute = step.get("attribute", "Value");
        for (String endpoint : step.get("endpoints", "").split(",")) {
            try (JMXConnector c = JMXConnectorFactory.connect(
                    new JMXServiceURL("service:jmx:rmi:///jndi/rmi://" + endpoint + "/jmxrmi"))) {
                MBeanServerConnection server = c.getMBeanServerConnection();
                result.values.put(endpoint, bean.isPattern() ? sum(server, bean, attribute)
                        : String.valueOf(server.getAttribute(bean, attribute)));
            }
        }
    }

    private static String sum(MBeanServerConnection server, ObjectName pattern, String attribute) throws Exception {
        Set<ObjectName> beans = server.queryNames(pattern, null);
        if (beans.isEmpty()) {
            throw new InstanceNotFoundException(pattern.toString());
        }
        double sum = 0;
        for (ObjectName bean : beans) {
            sum += ((Number) server.getAttribute(bean, attribute)).doubleValue();
        }
        return String.valueOf(sum);
    }
}
