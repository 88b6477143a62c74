import java.awt.Component;
import java.awt.Container;
import java.awt.Rectangle;
import java.awt.Robot;
import java.awt.Window;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import java.util.function.Predicate;
import javax.imageio.ImageIO;
import javax.swing.AbstractButton;
import javax.swing.JFrame;
import javax.swing.JInternalFrame;
import javax.swing.JPasswordField;
import javax.swing.JSplitPane;
import javax.swing.JTabbedPane;
import javax.swing.JTable;
import javax.swing.JTextField;
import javax.swing.JTree;
import javax.swing.SwingUtilities;
import javax.swing.tree.TreePath;

/**
 * Photographs the JDK's own JConsole as it shows the gateway: logs in, opens an MBean's attributes, subscribes to
 * its notifications, and saves what is on the screen.
 *
 * <p>Arguments: HOST:PORT, user, the labels of the tree from the domain down to the MBean joined by {@code |}, PICTURE of
 * its attributes, and, to wait for a notification too, the labels of another MBean and PICTURE of its notifications. The
 * first line of standard input is the password. Needs a screen (Xvfb does) and the JDK's module jdk.jconsole:
 * {@code java --add-exports jdk.jconsole/sun.tools.jconsole=ALL-UNNAMED JConsolePicture.java ...}
 */
public final class JConsolePicture {
    private static final long DEADLINE_MILLISECONDS = 120_000;
    private static final int TREE_PIXELS = 300;
    private static final int WIDE_PIXELS = 340;
    private static final int NARROW_PIXELS = 60;
    private static final int NOTIFICATIONS = 20;
    private static final long LOOK_AGAIN_MILLISECONDS = 50;

    private JConsolePicture() {}

    public static void main(String[] arguments) throws Exception {
        try {
            String password =
                    new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)).readLine();
            Class.forName("sun.tools.jconsole.JConsole")
                    .getMethod("main", String[].class)
                    .invoke(null, (Object) new String[] {"-interval=1"});
            logIn(arguments[0], arguments[1], password);
            fillScreen();
            onScreen(() -> select(find(JTabbedPane.class, tabs -> tabs.indexOfTab("MBeans") >= 0), "MBeans"));
            choose(arguments[2] + "|Attributes");
            waitFor("its attributes have values", () -> valueOf("NativeId") != null);
            save(arguments[3]);
            if (arguments.length > 4) {
                choose(arguments[4] + "|Notifications");
                click("Subscribe");
                waitFor("a screen of notifications", () -> rowsOfTableWith("Message") >= NOTIFICATIONS);
                onScreen(() -> widen("Type", "Message"));
                save(arguments[5]);
            }
            System.exit(0);
        } catch (Throwable failure) {
            failure.printStackTrace();
            File beside = new File(arguments[3] + ".failed.png");
            ImageIO.write(screen(), "png", beside);
            System.err.println("what was on the screen: " + beside);
            System.exit(1);
        }
    }

    private static void logIn(String address, String user, String password) throws Exception {
        click("Remote Process:");
        onScreen(
                () -> {
                    JPasswordField secret = find(JPasswordField.class, Component::isShowing);
                    List<JTextField> texts = all(JTextField.class, secret.getRootPane());
                    texts.removeIf(text -> text instanceof JPasswordField || !text.isShowing());
                    texts.get(0).setText(address);
                    texts.get(1).setText(user);
                    secret.setText(password);
                    return null;
                });
        click("Connect");
        // JConsole first tries TLS, and asks before it does without.
        waitFor(
                "it is connected",
                () -> {
                    AbstractButton insecure = button("Insecure connection");
                    if (insecure != null && insecure.isShowing()) {
                        insecure.doClick();
                    }
                    JInternalFrame inner = find(JInternalFrame.class, Component::isShowing);
                    return inner != null && inner.getTitle().equals(user + "@" + address);
                });
    }

    private static void fillScreen() throws Exception {
        onScreen(
                () -> {
                    JFrame frame = find(JFrame.class, Component::isShowing);
                    frame.setBounds(frame.getGraphicsConfiguration().getBounds());
                    frame.validate();
                    JInternalFrame inner = find(JInternalFrame.class, Component::isShowing);
                    inner.setMaximum(true);
                    return null;
                });
    }

    /** Opens the tree down to the node whose labels are given, and selects it. */
    private static void choose(String labels) throws Exception {
        waitFor(
                "the tree has " + labels,
                () -> {
                    JTree tree = find(JTree.class, Component::isShowing);
                    if (tree == null) {
                        return false;
                    }
                    TreePath path = new TreePath(tree.getModel().getRoot());
                    for (String label : labels.split("\\|")) {
                        tree.expandPath(path);
                        path = childOf(tree, path, label);
                        if (path == null) {
                            return false;
                        }
                    }
                    JSplitPane split = (JSplitPane) SwingUtilities.getAncestorOfClass(JSplitPane.class, tree);
                    split.setDividerLocation(TREE_PIXELS);
                    tree.setSelectionPath(path);
                    Rectangle shown = tree.getPathBounds(path);
                    tree.scrollRectToVisible(new Rectangle(0, shown.y, 1, shown.height));
                    return true;
                });
    }

    private static TreePath childOf(JTree tree, TreePath parent, String label) {
        Object node = parent.getLastPathComponent();
        for (int i = 0; i < tree.getModel().getChildCount(node); i++) {
            Object child = tree.getModel().getChild(node, i);
            String shown = tree.convertValueToText(child, false, false, false, 0, false);
            if (shown.equals(label)) {
                return parent.pathByAddingChild(child);
            }
        }
        return null;
    }

    private static Void select(JTabbedPane tabs, String title) {
        tabs.setSelectedIndex(tabs.indexOfTab(title));
        return null;
    }

    private static void click(String text) throws Exception {
        waitFor(
                "a button " + text,
                () -> {
                    AbstractButton button = button(text);
                    if (button == null || !button.isEnabled()) {
                        return false;
                    }
                    button.doClick();
                    return true;
                });
    }

    private static AbstractButton button(String text) {
        return find(AbstractButton.class, b -> b.isShowing() && text.equals(b.getText()));
    }

    private static Object valueOf(String attribute) {
        for (JTable table : showing(JTable.class)) {
            for (int row = 0; row < table.getRowCount() && table.getColumnCount() > 1; row++) {
                if (attribute.equals(String.valueOf(table.getValueAt(row, 0)))) {
                    return table.getValueAt(row, 1);
                }
            }
        }
        return null;
    }

    /** Rows of the table on the screen that has a column of that name. */
    private static int rowsOfTableWith(String column) {
        for (JTable table : showing(JTable.class)) {
            for (int i = 0; i < table.getColumnCount(); i++) {
                if (table.getColumnName(i).equals(column)) {
                    return table.getRowCount();
                }
            }
        }
        return 0;
    }

    /** Gives nearly all of the width to these columns. */
    private static Void widen(String... columns) {
        for (JTable table : showing(JTable.class)) {
            for (int i = 0; i < table.getColumnCount(); i++) {
                boolean wide = List.of(columns).contains(table.getColumnName(i));
                table.getColumnModel().getColumn(i).setPreferredWidth(wide ? WIDE_PIXELS : NARROW_PIXELS);
            }
        }
        return null;
    }

    private static void save(String file) throws Exception {
        waitFor("the sheet that tells of connecting is gone", () -> button("Cancel") == null);
        SwingUtilities.invokeAndWait(() -> {});
        Robot robot = new Robot();
        robot.waitForIdle();
        ImageIO.write(screen(), "png", new File(file));
    }

    private static java.awt.image.BufferedImage screen() throws Exception {
        Rectangle bounds =
                java.awt.GraphicsEnvironment.getLocalGraphicsEnvironment()
                        .getDefaultScreenDevice()
                        .getDefaultConfiguration()
                        .getBounds();
        return new Robot().createScreenCapture(bounds);
    }

    private static void waitFor(String what, Callable<Boolean> condition) throws Exception {
        long deadline = System.currentTimeMillis() + DEADLINE_MILLISECONDS;
        while (!onScreen(condition)) {
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException("in vain waited for: " + what);
            }
            Thread.sleep(LOOK_AGAIN_MILLISECONDS);
        }
    }

    private static <T> T onScreen(Callable<T> action) throws Exception {
        FutureTask<T> task = new FutureTask<>(action);
        SwingUtilities.invokeAndWait(task);
        return task.get();
    }

    private static <T extends Component> List<T> showing(Class<T> kind) {
        List<T> found = new ArrayList<>();
        for (Window window : Window.getWindows()) {
            found.addAll(all(kind, window));
        }
        found.removeIf(component -> !component.isShowing());
        return found;
    }

    private static <T extends Component> T find(Class<T> kind, Predicate<T> fits) {
        for (Window window : Window.getWindows()) {
            for (T component : all(kind, window)) {
                if (fits.test(component)) {
                    return component;
                }
            }
        }
        return null;
    }

    private static <T extends Component> List<T> all(Class<T> kind, Container container) {
        List<T> found = new ArrayList<>();
        if (kind.isInstance(container)) {
            found.add(kind.cast(container));
        }
        for (Component child : container.getComponents()) {
            if (child instanceof Container) {
                found.addAll(all(kind, (Container) child));
            }
        }
        return found;
    }
}
