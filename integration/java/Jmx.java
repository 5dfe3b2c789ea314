import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** Reads one attribute of one bean at several endpoints. */
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
                result.values.put(endpoint, String.valueOf(c.getMBeanServerConnection().getAttribute(bean, attribute)));
            }
        }
    }
}
